# RISC-V without floating point registers: the board virt.
TARGET := riscv32
TOOL := riscv64-unknown-elf
CPU := -march=rv32imc -mabi=ilp32
# Where WEIGHTS=FILE is loaded: flash past the image.
WEIGHTS_AT := 0x80200000
START := start_riscv.c
EMULATOR := qemu-system-riscv32 -M virt -bios none
# 2^SHIFT nanoseconds for an instruction; at 0, mcycle counts instructions.
SHIFT := 0
# An image that answers remote calls: its serial line, and ticks of the clock in a second.
UART := uart_16550.c
UART_FLAGS := -DUART=0x10000000 -DUART_LINE=10 -DCLOCK_HZ=1000000000

# RISC-V with vectors of integers, 128 bits, and no floating point registers: the board virt.
TARGET := rv32imac_zve32x
TOOL := riscv64-unknown-elf
# The compiler's libraries are for no vectors; the network's own code has them.
CPU := -march=rv32imac -mabi=ilp32
NETWORK_CPU := -march=rv32imac_zve32x -mabi=ilp32
# Where WEIGHTS=FILE is loaded: flash past the image.
WEIGHTS_AT := 0x80200000
START := start_riscv.c
EMULATOR := qemu-system-riscv32 -M virt -bios none -cpu rv32,v=true,vext_spec=v1.0,vlen=128
# 2^SHIFT nanoseconds for an instruction; at 0, mcycle counts instructions.
SHIFT := 0
# An image that answers remote calls: its serial line, and ticks of the clock in a second.
UART := uart_16550.c
UART_FLAGS := -DUART=0x10000000 -DUART_LINE=10 -DCLOCK_HZ=1000000000

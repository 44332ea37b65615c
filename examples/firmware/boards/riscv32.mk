# RISC-V without floating point registers: the board virt.
TOOL := riscv64-unknown-elf
CPU := -march=rv32imc -mabi=ilp32
START := start_riscv.c
EMULATOR := qemu-system-riscv32 -M virt -bios none

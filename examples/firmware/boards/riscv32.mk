# RISC-V without floating point registers: the board virt.
TARGET := riscv32
TOOL := riscv64-unknown-elf
CPU := -march=rv32imc -mabi=ilp32
START := start_riscv.c
EMULATOR := qemu-system-riscv32 -M virt -bios none
# 2^SHIFT nanoseconds for an instruction; at 0, mcycle counts instructions.
SHIFT := 0

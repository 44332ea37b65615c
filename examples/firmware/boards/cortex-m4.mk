# Cortex-M4 with its single-precision FPU: the board MPS2 AN386.
TOOL := arm-none-eabi
CPU := -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -DCLOCK=0x40028018
START := start_cortexm.c
EMULATOR := qemu-system-arm -M mps2-an386

# Cortex-M4 with its single-precision FPU: the board MPS2 AN386.
TARGET := cortex-m4
TOOL := arm-none-eabi
CPU := -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -DCLOCK=0x40028018
# Where WEIGHTS=FILE is loaded: flash past the image.
WEIGHTS_AT := 0x00200000
START := start_cortexm.c
EMULATOR := qemu-system-arm -M mps2-an386
# 2^SHIFT nanoseconds for an instruction: the clock of 25 MHz goes on by 0.8 ticks.
SHIFT := 5
# An image that answers remote calls: its serial line, and ticks of the clock in a second.
UART := uart_cmsdk.c
UART_FLAGS := -DUART=0x40004000 -DUART_LINE=0 -DCLOCK_HZ=25000000

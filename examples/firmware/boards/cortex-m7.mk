# Cortex-M7 with its double-precision FPU: the board MPS2 AN500.
TARGET := cortex-m7
TOOL := arm-none-eabi
CPU := -mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16 -DCLOCK=0x40028018
# Where WEIGHTS=FILE is loaded: flash past the image.
WEIGHTS_AT := 0x00200000
START := start_cortexm.c
EMULATOR := qemu-system-arm -M mps2-an500
# 2^SHIFT nanoseconds for an instruction: the clock of 25 MHz goes on by 0.8 ticks.
SHIFT := 5
# An image that answers remote calls: its serial line, and ticks of the clock in a second.
UART := uart_cmsdk.c
UART_FLAGS := -DUART=0x40004000 -DUART_LINE=0 -DCLOCK_HZ=25000000

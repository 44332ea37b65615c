# Cortex-M55 with Helium: the board MPS3 AN547. Networks keep GCC 12 from the loops that it gets wrong; the
# board's own files and the program need the option for it.
TARGET := cortex-m55
TOOL := arm-none-eabi
CPU := -mcpu=cortex-m55 -mthumb -mfloat-abi=hard -fno-branch-count-reg -DCLOCK=0x49302018
# Where WEIGHTS=FILE is loaded: flash past the image.
WEIGHTS_AT := 0x60800000
START := start_cortexm.c
EMULATOR := qemu-system-arm -M mps3-an547
# 2^SHIFT nanoseconds for an instruction: the clock of 20 MHz goes on by 0.64 ticks.
SHIFT := 5
# An image that answers remote calls: its serial line, and ticks of the clock in a second.
UART := uart_cmsdk.c
UART_FLAGS := -DUART=0x49303000 -DUART_LINE=33 -DCLOCK_HZ=20000000

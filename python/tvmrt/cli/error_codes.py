"""Causes and remedies of the firmware library's error codes, for ``tvmrt explain``.

The codes are defined in ``tvm/runtime/crt/error_codes.h``; a test compares the two lists.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "kTvmError"


class Explanation(NamedTuple):
    """Name of a code without its prefix, its value, its cause and its remedy."""

    name: str
    code: int
    cause: str
    remedy: str


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation("FunctionNameNotFound", 0x0100,
        "No function of that name is in the module or the registry.",
        "Compare the name with the table of the generated code; names carry the prefix "
        "tvmgen_<module>_."),
    Explanation("FunctionIndexInvalid", 0x0101, "A function handle has an index beyond its table.",
        "Use handles only with the image that gave them; do not keep them over an update."),
    Explanation("FunctionRegistryFull", 0x0102, "The table of global functions is full.",
        "Raise TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES in crt_config.h."),
    Explanation("FunctionAlreadyDefined", 0x0103, "A function of that name is registered already.",
        "Register it once, or ask to override it."),
    Explanation("BufferTooSmall", 0x0104, "The memory for a table is too small for one entry.",
        "Give more memory; an entry takes about 11 bytes and a pointer."),
    Explanation("FramingInvalidState", 0x0200, "A packet was started or finished out of order.",
        "Start every packet before its payload and finish it before the next."),
    Explanation("FramingShortPacket", 0x0201, "A packet ended before its stated length.",
        "Check the serial line for lost bytes."),
    Explanation("FramingInvalidEscape", 0x0202,
        "An escape byte was followed by an invalid escape code.",
        "Check the serial line for corrupted bytes, and that both ends use the same protocol."),
    Explanation("FramingPayloadOverflow", 0x0203,
        "The payload is longer than the packet announced.",
        "Check the sender's length field."),
    Explanation("FramingPayloadIncomplete", 0x0204,
        "A packet was finished before its payload was complete.",
        "Check the sender's length field."),
    Explanation("WriteStreamShortWrite", 0x0300, "The transport wrote fewer bytes than requested.",
        "Make the write function block until all bytes are written."),
    Explanation("WriteStreamLongWrite", 0x0301, "The transport reported more bytes than requested.",
        "Return the number of bytes written from the write function."),
    Explanation("SessionInvalidState", 0x0400,
        "A message arrived before the session was established.",
        "Start the session from the host first; reset the board if the host restarted."),
    Explanation("SessionReceiveBufferBusy", 0x0401,
        "A message arrived while the previous one was being handled.",
        "Wait for the reply before the next request."),
    Explanation("SessionReceiveBufferShortWrite", 0x0402,
        "A message is longer than the receive buffer.",
        "Raise TVM_CRT_MAX_PACKET_SIZE_BYTES in crt_config.h."),
    Explanation("PlatformCheckFailure", 0x0500, "An internal check failed.",
        "Read the log line before it; the usual cause is overwritten memory."),
    Explanation("PlatformMemoryManagerInitialized", 0x0501, "The memory manager was started twice.",
        "Start it once."),
    Explanation("PlatformShutdown", 0x0502, "The platform was asked to shut down.",
        "Nothing, if the shutdown was intended."),
    Explanation("PlatformNoMemory", 0x0503,
        "The workspace, or the arena of a graph executor, is too small for the network.",
        "Lend as many bytes as the network's header states: to a graph executor when it is made, "
        "else by tvmrt_workspace_init()."),
    Explanation("PlatformTimerBadState", 0x0504,
        "A timer was stopped while not running, or started twice.",
        "Pair TVMPlatformTimerStart and TVMPlatformTimerStop."),
    Explanation("PlatformStackAllocBadFree", 0x0505,
        "A workspace was freed out of order, or the pointer is not a workspace.",
        "Free workspaces in the reverse order of their allocation."),
    Explanation("GeneratedInvalidStorageId", 0x0600,
        "Generated code requested a constant that does not exist.",
        "Use code and parameters of the same compilation."),
    Explanation("ExecutorModuleAlreadyCreated", 0x0700,
        "The firmware supports one executor, which exists already.",
        "Release it before creating another one."),
    Explanation("ExecutorModuleBadContext", 0x0701,
        "An executor was requested for an unsupported device.",
        "Use the CPU, device 0."),
    Explanation("ExecutorModuleNoSuchInput", 0x0702, "The network has no input of that name.",
        "List the inputs with `tvmrt inspect`; names are case-sensitive."),
    Explanation("FunctionCallNumArguments", 0x0800,
        "A packed function was called with the wrong number of arguments.",
        "Pass all inputs, then all outputs."),
    Explanation("FunctionCallWrongArgType", 0x0801,
        "A packed function was called with an argument of the wrong type.",
        "Compare the type codes with the function's documentation."),
    Explanation("FunctionCallNotImplemented", 0x0802,
        "The firmware build does not contain this function.",
        "Link the part of the library that contains it."),
    Explanation("FunctionCallInvalidArg", 0x0803,
        "An argument is NULL, misaligned, or has a value out of range.",
        "Set every pointer, align tensors to their element type, check indices and sizes."),
    Explanation("TimeEvaluatorBadHandle", 0x0900, "The timed function's handle is not valid.",
        "Look the function up again."),
    Explanation("GraphArenaNull", 0x1000, "The graph executor received no memory.",
        "Pass an array of TVMRT_GRAPH_ARENA_BYTES bytes; the generated header names its size."),
    Explanation("GraphArenaMisaligned", 0x1001,
        "The graph executor's memory is not aligned to 16 bytes.",
        "Align the array: __attribute__((aligned(16))) or _Alignas(16)."),
    Explanation("GraphJsonDamaged", 0x1002, "The graph JSON is truncated, or is not a graph.",
        "Flash the file again, and compare its length with what the program passes."),
    Explanation("GraphInconsistent", 0x1003,
        "Values in the graph JSON are inconsistent or too large.",
        "Use the graph and the library of one compilation; `tvmrt inspect` shows both."),
    Explanation("GraphParamsDamaged", 0x1004, "The params are truncated, or are not a params file.",
        "Flash the file again, and compare its length with what the program passes."),
    Explanation("GraphTensorMismatch", 0x1005,
        "A tensor's data type or size differs from the graph.",
        "Compare the tensor with the input or output that `tvmrt inspect` prints."),
    Explanation("GraphTensorMisaligned", 0x1006,
        "A tensor's data is not aligned to its element type.",
        "Declare the buffer with its element type, or align it to 8 bytes."),
    Explanation("GraphInputNotSet", 0x1007,
        "The graph was run before all inputs and parameters were set.",
        "Call TVMGraphExecutor_LoadParams() and TVMGraphExecutor_SetInput() for each of them."),
    Explanation("NetworkPoolMisplaced", 0x1100,
        "A memory pool provided by the program is NULL or misaligned.",
        "Align the pool's array to 16 bytes, and set every member of the struct of pools."),
    Explanation("NetworkPoolTooSmall", 0x1101,
        "A memory pool provided by the program is too small.",
        "Allocate TVMGEN_<MODULE>_<POOL>_WORKSPACE_POOL_SIZE bytes; the macro is in the "
        "network's header."),
    Explanation("NetworkTensorMismatch", 0x1102,
        "The size, type or shape of an input or output does not match.",
        "Compare it with the network's header, or with the output of `tvmrt inspect`."),
    Explanation("NetworkWeightsNotLoaded", 0x1103,
        "Weights were not set, were refused, or were not copied to their pool.",
        "Before the first run, call tvmgen_<module>_set_weights() if the header declares it, and "
        "then tvmgen_<module>_load() with the same pools if the header declares it."),
    Explanation("NetworkDimensionOutOfRange", 0x1104,
        "A dimension in struct tvmgen_<module>_dims or of a tensor is out of range, or two "
        "inputs disagree about a dimension.",
        "Stay within TVMGEN_<MODULE>_<DIMENSION>_MIN and _MAX of the network's header, or "
        "compile the network with other bounds (--dim). With the graph executor, "
        "TVMGetLastError() names the dimension."),
    Explanation("NetworkWeightsMisplaced", 0x1105,
        "The address of the weights is NULL or not a multiple of 16.",
        "Store the file of the weights at an address that is a multiple of 16."),
    Explanation("NetworkWeightsUnknown", 0x1106,
        "The memory does not contain weights in the format of this program.",
        "Pass the address of a file that tvmrt compile --params file or tvmrt weights wrote, with "
        "the version of tvmrt that compiled the program."),
    Explanation("NetworkWeightsMismatch", 0x1107, "The weights belong to another program.",
        "Write them for this program: tvmrt weights NET.onnx --for NET.tar -o OUT.bin."),
    Explanation("NetworkWeightsDamaged", 0x1108, "Bytes of the weights are missing or changed.",
        "Write the file to flash again, and compare the size that the program passes with "
        "TVMGEN_<MODULE>_WEIGHTS_SIZE."),
    Explanation("NetworkTensorDamaged", 0x1109,
        "A tensor changed in memory between the operator that wrote it and those that read it.",
        "Run the network again. If it happens often, look for code or DMA that writes to the "
        "workspace, and check the supply and the temperature of the RAM."),
)  # fmt: skip

"""Causes and remedies of the firmware library's error codes, for ``tvmrt explain``.

The codes themselves stand in ``tvm/runtime/crt/error_codes.h``; a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "kTvmError"


class Explanation(NamedTuple):
    """A code's name without its prefix, its value, why it comes and what to do."""

    name: str
    code: int
    cause: str
    remedy: str


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        "FunctionNameNotFound",
        0x0100,
        "No function of that name is in the module or the registry.",
        "Compare the name with the table of the generated code; names carry the prefix "
        "tvmgen_<module>_.",
    ),
    Explanation(
        "FunctionIndexInvalid",
        0x0101,
        "A function handle has an index beyond its table.",
        "Use handles only with the image that gave them; do not keep them over an update.",
    ),
    Explanation(
        "FunctionRegistryFull",
        0x0102,
        "The table of global functions has no room left.",
        "Raise TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES in crt_config.h.",
    ),
    Explanation(
        "FunctionAlreadyDefined",
        0x0103,
        "A function of that name is registered already.",
        "Register it once, or ask to override it.",
    ),
    Explanation(
        "BufferTooSmall",
        0x0104,
        "The memory given for a table does not hold one entry.",
        "Give more memory; an entry takes about 11 bytes and a pointer.",
    ),
    Explanation(
        "FramingInvalidState",
        0x0200,
        "A packet was ended or begun out of turn.",
        "Start every packet before its payload and finish it before the next.",
    ),
    Explanation(
        "FramingShortPacket",
        0x0201,
        "A packet ended before its stated length.",
        "Check the serial line for lost bytes.",
    ),
    Explanation(
        "FramingInvalidEscape",
        0x0202,
        "An escape byte was followed by a byte that is no escape code.",
        "Check the serial line for changed bytes, and that both ends speak one protocol.",
    ),
    Explanation(
        "FramingPayloadOverflow",
        0x0203,
        "More payload came than the packet announced.",
        "Check the sender's length field.",
    ),
    Explanation(
        "FramingPayloadIncomplete",
        0x0204,
        "A packet was finished with payload missing.",
        "Check the sender's length field.",
    ),
    Explanation(
        "WriteStreamShortWrite",
        0x0300,
        "The transport took fewer bytes than were given.",
        "Let the write function block until all bytes are taken.",
    ),
    Explanation(
        "WriteStreamLongWrite",
        0x0301,
        "The transport reports more bytes than were given.",
        "Let the write function return the number of bytes that it took.",
    ),
    Explanation(
        "SessionInvalidState",
        0x0400,
        "A message came before the session was established.",
        "Start the session from the host first; reset the board if the host restarted.",
    ),
    Explanation(
        "SessionReceiveBufferBusy",
        0x0401,
        "A message came while the last one was being handled.",
        "Wait for the reply before the next request.",
    ),
    Explanation(
        "SessionReceiveBufferShortWrite",
        0x0402,
        "A message is longer than the receive buffer.",
        "Raise TVM_CRT_MAX_PACKET_SIZE_BYTES in crt_config.h.",
    ),
    Explanation(
        "PlatformCheckFailure",
        0x0500,
        "An internal check failed.",
        "Read the log line before it; most often memory was overwritten.",
    ),
    Explanation(
        "PlatformMemoryManagerInitialized",
        0x0501,
        "The memory manager was started twice.",
        "Start it once.",
    ),
    Explanation(
        "PlatformShutdown",
        0x0502,
        "The platform was asked to shut down.",
        "Nothing, if that was meant.",
    ),
    Explanation(
        "PlatformNoMemory",
        0x0503,
        "The workspace, or the arena of a graph executor, is too small for the network.",
        "Lend as many bytes as the network's header states: to a graph executor when it is made, "
        "else by tvmrt_workspace_init().",
    ),
    Explanation(
        "PlatformTimerBadState",
        0x0504,
        "A timer was stopped that does not run, or started twice.",
        "Pair TVMPlatformTimerStart and TVMPlatformTimerStop.",
    ),
    Explanation(
        "PlatformStackAllocBadFree",
        0x0505,
        "Memory was given back out of order, or is not a workspace.",
        "Free workspaces in the reverse order of their allocation.",
    ),
    Explanation(
        "GeneratedInvalidStorageId",
        0x0600,
        "Generated code asked for a constant that it does not have.",
        "Compile the code and the parameters together.",
    ),
    Explanation(
        "ExecutorModuleAlreadyCreated",
        0x0700,
        "The firmware's one executor exists already.",
        "Release it before another one is made.",
    ),
    Explanation(
        "ExecutorModuleBadContext",
        0x0701,
        "An executor was asked for on a device that it cannot use.",
        "Use the CPU, device 0.",
    ),
    Explanation(
        "ExecutorModuleNoSuchInput",
        0x0702,
        "The network has no input of that name.",
        "List the inputs with `tvmrt inspect`; names are case-sensitive.",
    ),
    Explanation(
        "FunctionCallNumArguments",
        0x0800,
        "A packed function got the wrong number of arguments.",
        "Pass all inputs, then all outputs.",
    ),
    Explanation(
        "FunctionCallWrongArgType",
        0x0801,
        "A packed function got an argument of the wrong type.",
        "Compare the type codes with the function's documentation.",
    ),
    Explanation(
        "FunctionCallNotImplemented",
        0x0802,
        "The firmware build lacks this function.",
        "Link the part of the library that has it, or do without.",
    ),
    Explanation(
        "FunctionCallInvalidArg",
        0x0803,
        "An argument is NULL, misaligned, or has a value out of range.",
        "Set every pointer, align tensors like their elements, check indices and sizes.",
    ),
    Explanation(
        "TimeEvaluatorBadHandle",
        0x0900,
        "The timed function's handle is not valid.",
        "Look the function up again.",
    ),
    Explanation(
        "GraphArenaNull",
        0x1000,
        "The graph executor was given no memory.",
        "Pass an array of TVMRT_GRAPH_ARENA_BYTES bytes; the generated header names its size.",
    ),
    Explanation(
        "GraphArenaMisaligned",
        0x1001,
        "The graph executor's memory does not begin at a multiple of 16.",
        "Align the array: __attribute__((aligned(16))) or _Alignas(16).",
    ),
    Explanation(
        "GraphJsonDamaged",
        0x1002,
        "The graph JSON is cut off, or its text is no JSON of a graph.",
        "Flash the file again, and compare its length with what the program passes.",
    ),
    Explanation(
        "GraphInconsistent",
        0x1003,
        "Numbers of the graph JSON contradict each other or are too large.",
        "Write the graph anew with the library that it belongs to; `tvmrt inspect` shows both.",
    ),
    Explanation(
        "GraphParamsDamaged",
        0x1004,
        "The params are cut off, or are no params file.",
        "Flash the file again, and compare its length with what the program passes.",
    ),
    Explanation(
        "GraphTensorMismatch",
        0x1005,
        "A tensor's data type or size in bytes is not what the graph says.",
        "Compare the tensor with the input or output that `tvmrt inspect` prints.",
    ),
    Explanation(
        "GraphTensorMisaligned",
        0x1006,
        "A tensor's data is not aligned to its elements.",
        "Declare the buffer with its element type, or align it to 8 bytes.",
    ),
    Explanation(
        "GraphInputNotSet",
        0x1007,
        "The graph was run before every input and parameter had data.",
        "Call TVMGraphExecutor_LoadParams() and TVMGraphExecutor_SetInput() for each of them.",
    ),
    Explanation(
        "NetworkPoolMisplaced",
        0x1100,
        "A memory pool that the program lends is NULL or misaligned.",
        "Align the pool's array to 16 bytes, and set every member of the struct of pools.",
    ),
    Explanation(
        "NetworkPoolTooSmall",
        0x1101,
        "A memory pool that the program lends is too small.",
        "Make it as large as TVMGEN_<MODULE>_<POOL>_WORKSPACE_POOL_SIZE of the network's header.",
    ),
    Explanation(
        "NetworkTensorMismatch",
        0x1102,
        "An input or output has another size, type or shape than its tensor.",
        "Compare it with the sizes in the network's header, or with what `tvmrt inspect` prints.",
    ),
    Explanation(
        "NetworkWeightsNotLoaded",
        0x1103,
        "Weights were not copied to the pool where they are read.",
        "Call tvmgen_<module>_load() once, with the same pools, before the first run.",
    ),
    Explanation(
        "NetworkDimensionOutOfRange",
        0x1104,
        "A size of struct tvmgen_<module>_dims, or an extent of a tensor, is below its least or"
        " beyond its largest, or two inputs have two sizes of one dimension.",
        "Stay within TVMGEN_<MODULE>_<DIMENSION>_MIN and _MAX of the network's header, or compile"
        " the network with other bounds (--dim); after the graph executor TVMGetLastError() tells"
        " which.",
    ),
)

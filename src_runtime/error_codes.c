/* Causes and remedies of the firmware library's error codes, for `tvmrt explain`. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/crt/error_codes.h>

#include "builtins.h"

typedef struct explanation {
  int code;
  const char* name;
  const char* cause;
  const char* remedy;
} explanation;

#define EXPLAIN(name, cause, remedy) \
  { kTvmError##name, "kTvmError" #name, cause, remedy }

static const explanation explanations[] = {
    EXPLAIN(FunctionNameNotFound, "No function of that name is in the module or the registry.",
            "Compare the name with the table of the generated code; names carry the prefix "
            "tvmgen_<module>_."),
    EXPLAIN(FunctionIndexInvalid, "A function handle has an index beyond its table.",
            "Use handles only with the image that gave them; do not keep them over an update."),
    EXPLAIN(FunctionRegistryFull, "The table of global functions has no room left.",
            "Raise TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES in crt_config.h."),
    EXPLAIN(FunctionAlreadyDefined, "A function of that name is registered already.",
            "Register it once, or ask to override it."),
    EXPLAIN(BufferTooSmall, "The memory given for a table does not hold one entry.",
            "Give more memory; an entry takes about 11 bytes and a pointer."),
    EXPLAIN(FramingInvalidState, "A packet was ended or begun out of turn.",
            "Start every packet before its payload and finish it before the next."),
    EXPLAIN(FramingShortPacket, "A packet ended before its stated length.",
            "Check the serial line for lost bytes."),
    EXPLAIN(FramingInvalidEscape, "An escape byte was followed by a byte that is no escape code.",
            "Check the serial line for changed bytes, and that both ends speak one protocol."),
    EXPLAIN(FramingPayloadOverflow, "More payload came than the packet announced.",
            "Check the sender's length field."),
    EXPLAIN(FramingPayloadIncomplete, "A packet was finished with payload missing.",
            "Check the sender's length field."),
    EXPLAIN(WriteStreamShortWrite, "The transport took fewer bytes than were given.",
            "Let the write function block until all bytes are taken."),
    EXPLAIN(WriteStreamLongWrite, "The transport reports more bytes than were given.",
            "Let the write function return the number of bytes that it took."),
    EXPLAIN(SessionInvalidState, "A message came before the session was established.",
            "Start the session from the host first; reset the board if the host restarted."),
    EXPLAIN(SessionReceiveBufferBusy, "A message came while the last one was being handled.",
            "Wait for the reply before the next request."),
    EXPLAIN(SessionReceiveBufferShortWrite, "A message is longer than the receive buffer.",
            "Raise TVM_CRT_MAX_PACKET_SIZE_BYTES in crt_config.h."),
    EXPLAIN(PlatformCheckFailure, "An internal check failed.",
            "Read the log line before it; most often memory was overwritten."),
    EXPLAIN(PlatformMemoryManagerInitialized, "The memory manager was started twice.",
            "Start it once."),
    EXPLAIN(PlatformShutdown, "The platform was asked to shut down.",
            "Nothing, if that was meant."),
    EXPLAIN(PlatformNoMemory, "The workspace is too small for the network.",
            "Lend more memory by tvmrt_workspace_init(); the network's header states the size."),
    EXPLAIN(PlatformTimerBadState, "A timer was stopped that does not run, or started twice.",
            "Pair TVMPlatformTimerStart and TVMPlatformTimerStop."),
    EXPLAIN(PlatformStackAllocBadFree, "Memory was given back out of order, or is not a workspace.",
            "Free workspaces in the reverse order of their allocation."),
    EXPLAIN(GeneratedInvalidStorageId, "Generated code asked for a constant that it does not have.",
            "Compile the code and the parameters together."),
    EXPLAIN(ExecutorModuleAlreadyCreated, "The firmware's one executor exists already.",
            "Release it before another one is made."),
    EXPLAIN(ExecutorModuleBadContext, "An executor was asked for on a device that it cannot use.",
            "Use the CPU, device 0."),
    EXPLAIN(ExecutorModuleNoSuchInput, "The network has no input of that name.",
            "List the inputs with `tvmrt inspect`; names are case-sensitive."),
    EXPLAIN(FunctionCallNumArguments, "A packed function got the wrong number of arguments.",
            "Pass all inputs, then all outputs."),
    EXPLAIN(FunctionCallWrongArgType, "A packed function got an argument of the wrong type.",
            "Compare the type codes with the function's documentation."),
    EXPLAIN(FunctionCallNotImplemented, "The firmware build lacks this function.",
            "Link the part of the library that has it, or do without."),
    EXPLAIN(FunctionCallInvalidArg, "An argument has the right type and a value out of range.",
            "Check indices and sizes."),
    EXPLAIN(TimeEvaluatorBadHandle, "The timed function's handle is not valid.",
            "Look the function up again."),
    EXPLAIN(GraphArenaNull, "The graph executor was given no memory.",
            "Pass an array of TVMRT_GRAPH_ARENA_BYTES bytes; the generated header names its size."),
    EXPLAIN(GraphArenaMisaligned, "The graph executor's memory does not begin at a multiple of 16.",
            "Align the array: __attribute__((aligned(16))) or _Alignas(16)."),
    EXPLAIN(GraphJsonDamaged, "The graph JSON is cut off, or its text is no JSON of a graph.",
            "Flash the file again, and compare its length with what the program passes."),
    EXPLAIN(GraphInconsistent, "Numbers of the graph JSON contradict each other or are too large.",
            "Write the graph anew with the library that it belongs to; `tvmrt inspect` shows both."),
    EXPLAIN(GraphParamsDamaged, "The params are cut off, or are no params file.",
            "Flash the file again, and compare its length with what the program passes."),
    EXPLAIN(GraphTensorMismatch, "A tensor's data type or size in bytes is not what the graph says.",
            "Compare the tensor with the input or output that `tvmrt inspect` prints."),
    EXPLAIN(GraphTensorMisaligned, "A tensor's data is not aligned to its elements.",
            "Declare the buffer with its element type, or align it to 8 bytes."),
    EXPLAIN(GraphInputNotSet, "The graph was run before every input and parameter had data.",
            "Call TVMGraphExecutor_LoadParams() and TVMGraphExecutor_SetInput() for each of them."),
    EXPLAIN(NetworkPoolMisplaced, "A memory pool that the program lends is NULL or misaligned.",
            "Align the pool's array to 16 bytes, and set every member of the struct of pools."),
    EXPLAIN(NetworkPoolTooSmall, "A memory pool that the program lends is too small.",
            "Make it as large as TVMGEN_<MODULE>_<POOL>_WORKSPACE_POOL_SIZE of the network's header."),
    EXPLAIN(NetworkTensorMismatch, "An input or output has another size, type or shape than its tensor.",
            "Compare it with the sizes in the network's header, or with what `tvmrt inspect` prints."),
    EXPLAIN(NetworkWeightsNotLoaded, "Weights were not copied to the pool where they are read.",
            "Call tvmgen_<module>_load() once, with the same pools, before the first run."),
};

static const explanation* find_code(int64_t code) {
  size_t i;
  for (i = 0; i < sizeof(explanations) / sizeof(explanations[0]); ++i) {
    if (explanations[i].code == code) return &explanations[i];
  }
  return NULL;
}

static const explanation* find_name(const char* name) {
  static const char prefix[] = "kTvmError";
  size_t i;
  if (strncmp(name, prefix, sizeof(prefix) - 1) == 0) name += sizeof(prefix) - 1;
  for (i = 0; i < sizeof(explanations) / sizeof(explanations[0]); ++i) {
    if (strcmp(explanations[i].name + sizeof(prefix) - 1, name) == 0) return &explanations[i];
  }
  return NULL;
}

static int return_text(TVMValue* out, int* out_code, const explanation* e) {
  tvmrt_buf text = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(&text, "%s (0x%04x)\ncause: %s\nremedy: %s", e->name,
                             (unsigned)e->code, e->cause, e->remedy);
  if (rc == 0) rc = tvmrt__ret_str(out, out_code, text.data);
  tvmrt__buf_free(&text);
  return rc;
}

/* (code or name) -> three lines: name and value, "cause: ...", "remedy: ..." */
TVMRT_NATIVE(explain) {
  const explanation* e;
  const char* name;
  int64_t code;
  TVMRT_ARGS("tvmrt.explain_error");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  if (type_codes[0] == kTVMStr) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
    e = find_name(name);
    if (e == NULL) return tvmrt__fail("ValueError: there is no error code named '%.60s'.", name);
    return return_text(out, out_code, e);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &code));
  if ((code & 0x80000000) != 0) {
    return tvmrt__ret_str(out, out_code,
                          "board-specific error\ncause: the code has the system mask bit set.\n"
                          "remedy: look the low bits up in the board's own documentation.");
  }
  e = find_code(code);
  if (e == NULL) {
    return tvmrt__fail("ValueError: there is no error code 0x%04llx.", (unsigned long long)code);
  }
  return return_text(out, out_code, e);
}

const tvmrt_builtin tvmrt__error_code_builtins[] = {
    {"tvmrt.explain_error", explain},
    {NULL, NULL},
};

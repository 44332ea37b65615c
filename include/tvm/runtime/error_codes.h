/*!
 * \file tvm/runtime/error_codes.h
 * \brief Error codes of the firmware library: a category and a number in 16 bits.
 *
 * One list generates the enum and the names; `tvmrt explain CODE` prints causes and remedies.
 * Values equal those of TVM 0.8 to 0.18; categories from 16 on are specific to tvmrt. A value with
 * TVM_CRT_SYSTEM_ERROR_MASK set is defined by the board.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_ERROR_CODES_H_
#define TVM_RUNTIME_ERROR_CODES_H_

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Bit position of the category in a code. */
#define TVM_CRT_ERROR_CATEGORY_Pos 8
/*! \brief Bits of the category. */
#define TVM_CRT_ERROR_CATEGORY_Msk (0xff << TVM_CRT_ERROR_CATEGORY_Pos)
/*! \brief Bit position of the number in a code. */
#define TVM_CRT_ERROR_CODE_Pos 0
/*! \brief Bits of the number. */
#define TVM_CRT_ERROR_CODE_Msk (0xff << TVM_CRT_ERROR_CODE_Pos)

/*! \brief A code of category `category` and number `code`. */
#define DEFINE_TVM_CRT_ERROR(category, code) (((category) << TVM_CRT_ERROR_CATEGORY_Pos) | (code))

/*! \brief Categories. */
typedef enum {
  kTvmErrorCategoryFunctionRegistry = 1,
  kTvmErrorCategoryFraming = 2,
  kTvmErrorCategoryWriteStream = 3,
  kTvmErrorCategorySession = 4,
  kTvmErrorCategoryPlatform = 5,
  kTvmErrorCategoryGenerated = 6,
  kTvmErrorCategoryExecutor = 7,
  kTvmErrorCategoryFunctionCall = 8,
  kTvmErrorCategoryTimeEvaluator = 9,
  kTvmErrorCategoryGraph = 16,  /*!< Specific to this library. */
  kTvmErrorCategoryNetwork = 17 /*!< Specific to this library. */
} tvm_crt_error_category_t;

/*! \brief Every code: X(name after kTvmError, category after kTvmErrorCategory, number). */
#define TVMRT_CRT_ERRORS(X)                        \
  X(FunctionNameNotFound, FunctionRegistry, 0)     \
  X(FunctionIndexInvalid, FunctionRegistry, 1)     \
  X(FunctionRegistryFull, FunctionRegistry, 2)     \
  X(FunctionAlreadyDefined, FunctionRegistry, 3)   \
  X(BufferTooSmall, FunctionRegistry, 4)           \
  X(FramingInvalidState, Framing, 0)               \
  X(FramingShortPacket, Framing, 1)                \
  X(FramingInvalidEscape, Framing, 2)              \
  X(FramingPayloadOverflow, Framing, 3)            \
  X(FramingPayloadIncomplete, Framing, 4)          \
  X(WriteStreamShortWrite, WriteStream, 0)         \
  X(WriteStreamLongWrite, WriteStream, 1)          \
  X(SessionInvalidState, Session, 0)               \
  X(SessionReceiveBufferBusy, Session, 1)          \
  X(SessionReceiveBufferShortWrite, Session, 2)    \
  X(PlatformCheckFailure, Platform, 0)             \
  X(PlatformMemoryManagerInitialized, Platform, 1) \
  X(PlatformShutdown, Platform, 2)                 \
  X(PlatformNoMemory, Platform, 3)                 \
  X(PlatformTimerBadState, Platform, 4)            \
  X(PlatformStackAllocBadFree, Platform, 5)        \
  X(GeneratedInvalidStorageId, Generated, 0)       \
  X(ExecutorModuleAlreadyCreated, Executor, 0)     \
  X(ExecutorModuleBadContext, Executor, 1)         \
  X(ExecutorModuleNoSuchInput, Executor, 2)        \
  X(FunctionCallNumArguments, FunctionCall, 0)     \
  X(FunctionCallWrongArgType, FunctionCall, 1)     \
  X(FunctionCallNotImplemented, FunctionCall, 2)   \
  X(FunctionCallInvalidArg, FunctionCall, 3)       \
  X(TimeEvaluatorBadHandle, TimeEvaluator, 0)      \
  X(GraphArenaNull, Graph, 0)                      \
  X(GraphArenaMisaligned, Graph, 1)                \
  X(GraphJsonDamaged, Graph, 2)                    \
  X(GraphInconsistent, Graph, 3)                   \
  X(GraphParamsDamaged, Graph, 4)                  \
  X(GraphTensorMismatch, Graph, 5)                 \
  X(GraphTensorMisaligned, Graph, 6)               \
  X(GraphInputNotSet, Graph, 7)                    \
  X(NetworkPoolMisplaced, Network, 0)              \
  X(NetworkPoolTooSmall, Network, 1)               \
  X(NetworkTensorMismatch, Network, 2)             \
  X(NetworkWeightsNotLoaded, Network, 3)           \
  X(NetworkDimensionOutOfRange, Network, 4)        \
  X(NetworkWeightsMisplaced, Network, 5)           \
  X(NetworkWeightsUnknown, Network, 6)             \
  X(NetworkWeightsMismatch, Network, 7)            \
  X(NetworkWeightsDamaged, Network, 8)             \
  X(NetworkTensorDamaged, Network, 9)

#define TVMRT_CRT_ERROR_ENUMERATOR(name, category, number) \
  kTvmError##name = DEFINE_TVM_CRT_ERROR(kTvmErrorCategory##category, number),

/*! \brief Result of the firmware library's functions; 0 is success. */
typedef enum {
  kTvmErrorNoError = 0,
  TVMRT_CRT_ERRORS(TVMRT_CRT_ERROR_ENUMERATOR)
  /*! A code with this bit set is defined by the board. */
  kTvmErrorSystemErrorMask = (int)(-0x7fffffff - 1),
  /*! Names of release 0.8 for the executor's codes. */
  kTvmErrorCategoryGraphModule = kTvmErrorCategoryExecutor,
  kTvmErrorGraphModuleAlreadyCreated = kTvmErrorExecutorModuleAlreadyCreated,
  kTvmErrorGraphModuleBadContext = kTvmErrorExecutorModuleBadContext,
  kTvmErrorGraphModuleNoSuchInput = kTvmErrorExecutorModuleNoSuchInput
} tvm_crt_error_t;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_ERROR_CODES_H_ */

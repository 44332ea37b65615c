/* What the provider needs of the system, by POSIX, and of the compiler. */
#ifndef TVMRT_ONNXRUNTIME_EP_PLATFORM_POSIX_H_
#define TVMRT_ONNXRUNTIME_EP_PLATFORM_POSIX_H_

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
/* A function like printf, whose format is parameter `at`. */
#define PRINTF_LIKE(at) __attribute__((format(printf, at, at + 1)))

typedef pthread_mutex_t mutex;
#define MUTEX_INIT PTHREAD_MUTEX_INITIALIZER

static inline void mutex_init(mutex* m) { (void)pthread_mutex_init(m, NULL); }
static inline void mutex_free(mutex* m) { (void)pthread_mutex_destroy(m); }
static inline void mutex_lock(mutex* m) { (void)pthread_mutex_lock(m); }
static inline void mutex_unlock(mutex* m) { (void)pthread_mutex_unlock(m); }

/* The folder of temporary files: TMPDIR, or /tmp. */
const char* temporary_folder(void);
/* Replace the X of path, which ends in "XXXXXX.so", and write that file; 0, or an error number. */
int write_temporary_library(char* path, const void* data, size_t size);
/* Of this process. */
long process_number(void);
void remove_file(const char* path);
/* Keep the library with this function in memory for the life of the process, and let libraries that
 * are loaded later find its functions. */
bool keep_library(const void* function);

#endif /* TVMRT_ONNXRUNTIME_EP_PLATFORM_POSIX_H_ */

/* ELF headers, if the system has them: TVMRT_HAS_ELF, and ElfW(). */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_ELF_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_ELF_H_

#if defined(__linux__)
#include <elf.h>
#include <link.h>
#define TVMRT_HAS_ELF 1
#else
#define TVMRT_HAS_ELF 0
#endif

#endif

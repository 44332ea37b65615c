/* Packets of real sessions, recorded in this process between the runtime's own client and a
   server. */
#ifndef TVMRT_TESTS_C_RECORDED_SESSIONS_H_
#define TVMRT_TESTS_C_RECORDED_SESSIONS_H_

#include "fuzz/rpc_server.h"

enum { MAX_RECORDED = 128, ADDRESS_BYTE = 0xa1 };

/*
 * The packets of one session, its head in each. Where one has an address of the server's memory there
 * are seven bytes ADDRESS_BYTE, and the place of that memory in the server's table in the eighth.
 */
typedef struct recorded_session {
  tvmrt_buf packets[MAX_RECORDED];
  size_t count;
} recorded_session;

enum { RECORDED_SESSIONS = 3 };

/* Calls, memory, a network in the graph executor: one session each. */
void record_sessions(recorded_session* out);
void free_sessions(recorded_session* sessions);

/* Settings of every session: little memory and few handles, so that the limits are reached. */
extern const tvmrt_rpc_limits recorded_limits;

#endif

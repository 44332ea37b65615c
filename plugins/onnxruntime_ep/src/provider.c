#include "provider.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/system.h"

/* ---- options ---- */

#define OWN_PREFIX "ep." EP_NAME "."

static const char* const keys_of_options[NUM_OPTIONS] = {
    [OPTION_ALLOW_COMPILED] = OWN_PREFIX "allow_compiled",
    [OPTION_COMMAND] = OWN_PREFIX "command",
    [OPTION_DIMS] = OWN_PREFIX "dims",
    [OPTION_IDLE_EXECUTORS] = OWN_PREFIX "idle_executors",
    [OPTION_MIN_NODES] = OWN_PREFIX "min_nodes",
    [OPTION_TARGET] = OWN_PREFIX "target",
    [OPTION_CONTEXT_IS_WRITTEN] = "ep.context_enable",
};

/* Other values are checked by the compiler, which knows the targets and the network's dimensions. */
static void check_option(job* j, option which, const char* value) {
  const int least = which == OPTION_MIN_NODES ? 1 : 0;
  const size_t digits = strspn(value, "0123456789");
  if (which == OPTION_ALLOW_COMPILED) trust_check_option(j, value);
  if (which != OPTION_MIN_NODES && which != OPTION_IDLE_EXECUTORS) return;
  if (digits > 0 && value[digits] == '\0' && strtoul(value, NULL, 10) >= (unsigned)least) return;
  job_fail(
      j, ORT_INVALID_ARGUMENT,
      "the provider option %s has the value '%s'; give a whole number from %d on, such as 3, in "
      "digits",
      keys_of_options[which] + sizeof(OWN_PREFIX) - 1, value, least);
}

static void read_option(job* j, provider* to, const char* key, const char* value) {
  size_t i = 0;
  while (i < NUM_OPTIONS && strcmp(key, keys_of_options[i]) != 0) ++i;
  if (i == NUM_OPTIONS) { /* an option of tvmrt with another name would be ignored silently */
    if (strncmp(key, OWN_PREFIX, sizeof(OWN_PREFIX) - 1) == 0) {
      job_fail(j, ORT_INVALID_ARGUMENT,
               "there is no provider option %s; choose from dims, min_nodes, target, command, "
               "allow_compiled, idle_executors",
               key + sizeof(OWN_PREFIX) - 1);
    }
  } else if (i != OPTION_COMMAND || value[strspn(value, " ")] != '\0') {
    free(to->options[i]);
    TVM(j, (to->options[i] = tvmrt__strdup(value)) == NULL ? -1 : 0);
    check_option(j, (option)i, value);
  }
}

static void read_options(job* j, const ort_options* options, provider* to) {
  const char *const *keys = NULL, *const *values = NULL;
  void* pairs = NULL;
  size_t count = 0;
  ORT(j, api.GetSessionOptionsConfigEntries, options, &pairs);
  if (pairs == NULL) return;
  j->ort->api.GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; !j->has_failed && i < count; ++i) read_option(j, to, keys[i], values[i]);
  j->ort->api.ReleaseKeyValuePairs(pairs);
}

/* ---- the nodes to take ---- */

static void claim(job* j, ort_support* support, const void* const* nodes, size_t count) {
  const ort_fusion fusion = {ORT_VERSION_NEEDED, true};
  if (count > 0) ORT(j, ep.AddNodesToFuse, support, nodes, count, &fusion);
}

/* Record the library of a part, whose first node has an index. */
static void add_part(job* j, provider* p, const void* node, unsigned long index) {
  const list outputs = LIST(j, Node, Outputs, node);
  const char** names = job_names(j, outputs);
  part* added = &p->parts[p->num_parts];
  size_t i = 0;
  while (i < outputs.count && names[i][0] == '\0') ++i;
  added->library = job_file(j, job_text(j, "%lu.so", index));
  if (i < outputs.count) added->output = job_text(j, "%s", names[i]);
  p->num_parts += !j->has_failed && added->output != NULL;
}

/* Read the lines of the compiler: each has the indices of the nodes of one part. */
static void claim_parts(job* j, provider* p, ort_support* support, const tvmrt_buf* text,
                        list nodes) {
  const void** members = job_alloc(j, nodes.count + 1, sizeof(*members));
  size_t size = 0;
  char *at = text->data, *end;
  p->parts = job_alloc(j, nodes.count + 1, sizeof(*p->parts));
  if (p->parts == NULL || at == NULL) return;
  for (; *at != '\0'; at = end + (*end != '\0')) {
    const unsigned long index = strtoul(at, &end, 10);
    if (end == at || index >= nodes.count || size >= nodes.count) {
      job_fail(j, ORT_EP_FAIL,
               "the command lists parts that the graph lacks; check that it is of the same version "
               "of tvmrt");
      return;
    }
    if (size == 0 && p->num_parts < nodes.count) add_part(j, p, nodes.items[index], index);
    members[size++] = nodes.items[index];
    if (*end == '\n') {
      claim(j, support, members, size);
      size = 0;
    }
  }
}

static void forget_parts(provider* p) {
  (void)job_end(&p->claimed); /* kept without an error */
  p->claimed = (job){.ort = p->ort};
  p->parts = NULL;
  p->num_parts = 0;
}

/* End a job that failed by the error of an option. onnxruntime only logs errors of GetCapability, so
 * a node is claimed: then compile() is called, whose errors let the session fail. */
static ort_status* postpone_error(job* j, ort_support* support, const ort_node* node) {
  job next = {.ort = j->ort};
  ort_status* status = job_end(j);
  if (status != NULL) j->ort->api.ReleaseStatus(status);
  claim(&next, support, (const void* const*)&node, 1);
  return job_end(&next);
}

/* Bodies of If, Loop and Scan are part of their nodes: none of their nodes is taken alone. A model
 * with EPContext nodes has been compiled: nothing else is taken, so that no compiler is needed. */
static ort_status* get_capability(void* self, const ort_graph* graph, ort_support* support) {
  provider* p = self;
  job j = {.ort = p->ort};
  const ort_node* parent = NULL;
  tvmrt_buf model = {NULL, 0, 0}, parts = {NULL, 0, 0};
  const char* result;
  bool is_compiled = false;
  list nodes = {NULL, 0};
  forget_parts(p);
  ORT(&j, api.Graph_GetParentNode, graph, &parent);
  if (parent == NULL) nodes = LIST(&j, Graph, Nodes, graph);
  for (size_t i = 0; i < nodes.count; ++i) {
    if (!context_is_ours(&j, nodes.items[i])) continue;
    is_compiled = true;
    claim(&j, support, &nodes.items[i], 1);
  }
  if (nodes.count > 0 && !is_compiled) {
    write_model(&j, graph, NULL, &model);
    result = run_compiler(&j, p, &model, true);
    if (TVM(&j, tvmrt__read_file(result, &parts))) claim_parts(&j, p, support, &parts, nodes);
  }
  tvmrt__buf_free(&parts);
  tvmrt__buf_free(&model);
  if (p->wrong_option != NULL && nodes.count > 0) {
    return postpone_error(&j, support, nodes.items[0]);
  }
  if (j.has_failed) return job_end(&j);
  p->claimed = j;
  return NULL;
}

/* ---- compiling them ---- */

/* The library of the part with these nodes; NULL if there is none. */
static const char* find_library(job* j, const provider* p, list nodes) {
  for (size_t i = 0; i < nodes.count; ++i) {
    const list outputs = LIST(j, Node, Outputs, nodes.items[i]);
    const char** names = job_names(j, outputs);
    for (size_t k = 0; k < outputs.count; ++k) {
      for (size_t part = 0; part < p->num_parts; ++part) {
        if (strcmp(names[k], p->parts[part].output) == 0) return p->parts[part].library;
      }
    }
  }
  return NULL;
}

/* Load the library that get_capability() compiled, or compile one if onnxruntime lists the inputs
 * and outputs of the part in another order. */
static const char* load_compiled(job* j, provider* p, const ort_graph* graph, const ort_node* fused,
                                 list nodes, kernel** out) {
  const char* library = find_library(j, p, nodes);
  job trial = {.ort = p->ort};
  ort_status* difference;
  tvmrt_buf model = {NULL, 0, 0};
  *out = library == NULL ? NULL : kernel_load(&trial, library, fused, p->max_idle);
  difference = job_end(&trial);
  if (difference != NULL) p->ort->api.ReleaseStatus(difference);
  if (*out != NULL) return library;
  write_model(j, graph, fused, &model);
  library = run_compiler(j, p, &model, false);
  tvmrt__buf_free(&model);
  *out = kernel_load(j, library, fused, p->max_idle);
  return library;
}

static ort_status* compile_one(provider* p, const ort_graph* graph, const ort_node* fused,
                               void** out, ort_node** context) {
  const char *is_written = p->options[OPTION_CONTEXT_IS_WRITTEN], *library;
  job j = {.ort = p->ort};
  const list nodes = LIST(&j, Graph, Nodes, graph);
  kernel* made = NULL;
  if (p->wrong_option != NULL) job_fail(&j, ORT_INVALID_ARGUMENT, "%s", p->wrong_option);
  if (nodes.count == 1 && context_is_ours(&j, nodes.items[0])) {
    made = context_load(&j, p, nodes.items[0], fused);
  } else if (!j.has_failed) {
    library = load_compiled(&j, p, graph, fused, nodes, &made);
    if (context != NULL && is_written != NULL && strcmp(is_written, "1") == 0) {
      *context = context_node(&j, fused, library);
    }
  }
  *out = made;
  return job_end(&j);
}

static void release_kernels(void* self, void** kernels, size_t count) {
  (void)self;
  for (size_t i = 0; i < count; ++i) {
    kernel_free(kernels[i]);
    kernels[i] = NULL;
  }
}

static ort_status* compile(void* self, const ort_graph** graphs, const ort_node** fused,
                           size_t count, void** kernels, ort_node** contexts) {
  ort_status* status = NULL;
  size_t i = 0;
  for (; status == NULL && i < count; ++i) {
    status =
        compile_one(self, graphs[i], fused[i], &kernels[i], contexts == NULL ? NULL : &contexts[i]);
  }
  forget_parts(self);
  if (status != NULL) release_kernels(self, kernels, i);
  return status;
}

const char* provider_name(const void* self) {
  (void)self;
  return EP_NAME;
}

static const ort_slot slots[ORT_OWN_SLOTS] = {
    [OrtEp_GetName] = (ort_slot)provider_name,
    [OrtEp_GetCapability] = (ort_slot)get_capability,
    [OrtEp_Compile] = (ort_slot)compile,
    [OrtEp_ReleaseNodeComputeInfos] = (ort_slot)release_kernels,
};

ort_status* provider_create(void* self, const ort_hardware* const* hardware,
                            const void* const* metadata, size_t count, const ort_options* options,
                            const void* logger, provider** out) {
  job j = {.ort = &((const factory*)self)->ort};
  provider* p = own_new(&j, sizeof(*p), slots);
  (void)hardware, (void)metadata, (void)count, (void)logger;
  if (p != NULL) {
    p->ort = j.ort;
    read_options(&j, options, p);
    p->max_idle = p->options[OPTION_IDLE_EXECUTORS] == NULL
                      ? (size_t)tvmrt__num_cores()
                      : strtoul(p->options[OPTION_IDLE_EXECUTORS], NULL, 10);
  }
  if (j.has_failed) {
    provider_release(self, p);
    p = NULL;
  }
  *out = p;
  return job_end(&j);
}

void provider_release(void* self, provider* of) {
  (void)self;
  if (of == NULL) return;
  forget_parts(of);
  for (size_t i = 0; i < NUM_OPTIONS; ++i) free(of->options[i]);
  free(of->wrong_option);
  free(of);
}

/* Modules of kind "device_region": the regions of one device in one library.
 *
 * Payload: string of JSON (region_set.h), string of constants.
 *
 * A library may have several, one for each device. The module owns the text and the constants of
 * its regions. It retains the device, so the device cannot be unregistered while the library is
 * loaded. */
#include "../modules/module.h"

#include <stdlib.h>

#include "loaded_region.h"

typedef struct region_module {
  tvmrt_module base;
  tvmrt_region_set set;
  tvmrt_buf json;
  tvmrt_constants constants;
  tvmrt_loaded_region* regions;
  size_t num_regions;     /* started to load */
  atomic_bool has_warned; /* a warning about the CPU fallback was printed */
  tvmrt_device* device;
} region_module;

/* Accepts a partly loaded module: regions are counted when they are started. */
static void region_destroy(tvmrt_module* self) {
  region_module* m = (region_module*)self;
  size_t i;
  /* regions return their graphs to the device, which may be unregistered once it is released */
  for (i = 0; i < m->num_regions; ++i) tvmrt__loaded_region_free(&m->regions[i]);
  tvmrt__device_put(m->device);
  free(m->regions);
  tvmrt__constants_free(&m->constants);
  tvmrt__buf_free(&m->json);
  /* Last: names, tensors and tables of regions lie in its arena. */
  tvmrt__region_set_free(&m->set);
}

/* The region whose symbol with this suffix is `name`. */
static tvmrt_loaded_region* region_of(region_module* m, const char* name, const char* ending) {
  const size_t size = strlen(name);
  const size_t end = strlen(ending);
  size_t i;
  if (size < end || strcmp(name + size - end, ending) != 0) return NULL;
  for (i = 0; i < m->num_regions; ++i) {
    const char* symbol = m->regions[i].first.region.symbol;
    if (strlen(symbol) == size - end && memcmp(symbol, name, size - end) == 0) {
      return &m->regions[i];
    }
  }
  return NULL;
}

/* A region has three functions: one that computes, and two that start and wait. Generated code
 * calls the two for an asynchronous device, and independent operators in between. */
static int region_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  region_module* m = (region_module*)self;
  tvmrt_loaded_region* region = region_of(m, name, "");
  out->fn = tvmrt__loaded_region_call;
  if (region == NULL) {
    region = region_of(m, name, "__start");
    out->fn = tvmrt__loaded_region_start;
  }
  if (region == NULL) {
    region = region_of(m, name, "__wait");
    out->fn = tvmrt__loaded_region_wait;
  }
  if (region == NULL) {
    out->fn = NULL;
    return 0;
  }
  out->kind = TVMRT_FUNC_LIBRARY;
  out->resource = region;
  return 0;
}

static int region_save(tvmrt_module* self, tvmrt_buf* out) {
  const region_module* m = (const region_module*)self;
  /* Unchanged: keys that this runtime does not know are preserved. */
  TVMRT_RETURN_IF_ERROR(tvmrt__write_data(out, m->json.data, m->json.size));
  return tvmrt__write_data(out, m->constants.data, m->constants.size);
}

static int region_source(tvmrt_module* self, const char* format, tvmrt_buf* out) {
  const region_module* m = (const region_module*)self;
  (void)format; /* there is one text */
  return tvmrt__buf_append(out, m->json.data, m->json.size);
}

static const tvmrt_module_type region_type = {
    .key = "device_region",
    .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE,
    .find = region_find,
    .save = region_save,
    .source = region_source,
    .destroy = region_destroy,
};

/* Always -1, with the region that needs it, and the folders that were searched. */
static int missing_device(const region_module* m) {
  tvmrt_buf folders = {NULL, 0, 0};
  const char* region = m->set.num_regions == 0 ? "" : m->set.regions[0].region.symbol;
  TVMRT_RETURN_IF_ERROR(tvmrt__plugin_folders(&folders));
  (void)tvmrt__fail_value(
      "the library needs device '%.60s' for region '%.100s', which is not registered; "
      "put libtvmrt_device_%.60s.so into one of %s, load its plug-in before "
      "(tvmrt.load_device_plugin in Python, tvmrt_device_load_plugin in C), or install the package "
      "that offers it to Python.",
      m->set.device, region, m->set.device, folders.data == NULL ? "" : folders.data);
  tvmrt__buf_free(&folders);
  return -1;
}

/* A newer device runs regions of an older one's compiler, but not vice versa. */
static int check_version(const region_module* m) {
  if (m->set.device_version <= (int64_t)m->device->version) return 0;
  return tvmrt__fail_value(
      "the library was compiled for version %lld of device '%s', this runtime has version %u; "
      "update the device, or compile the network again.",
      (long long)m->set.device_version, m->device->name, (unsigned)m->device->version);
}

/* *device is held from here to the module's end, even if its version is refused. */
static int take_device(region_module* m) {
  TVMRT_RETURN_IF_ERROR(tvmrt__device_take(m->set.device, &m->device));
  return m->device == NULL ? missing_device(m) : check_version(m);
}

/* With a fallback the library loads even if a region cannot run: calls fail with this text, and the
 * generated code then calls the CPU's function. */
static int allow_fallback(const region_module* m, int rc, char** out_failure) {
  if (rc == 0 || !m->set.fallback) return rc;
  *out_failure = tvmrt__strdup(TVMGetLastError());
  return *out_failure == NULL ? -1 : 0;
}

/* Without a device each region keeps the reason, and fails with it when it is called. */
static int load_region(region_module* m, size_t i, const char* why_no_device) {
  tvmrt_loaded_region* region = &m->regions[i];
  const tvmrt_region_draft* draft = &m->set.regions[i];
  tvmrt_device* device = why_no_device == NULL ? m->device : NULL;
  int rc;
  region->falls_back = m->set.fallback;
  region->has_warned = &m->has_warned;
  ++m->num_regions; /* before initialisation, so that a failed region is freed like the others */
  region->text = m->json.data + draft->text_begin;
  region->text_size = draft->text_size;
  region->constants = &m->constants;
  rc = tvmrt__loaded_region_init(region, draft, device, m->set.options, &m->set.arena);
  if (why_no_device == NULL) return allow_fallback(m, rc, &region->failure);
  region->failure = rc == 0 ? tvmrt__strdup(why_no_device) : NULL;
  return region->failure == NULL ? -1 : 0;
}

/* The constants must be set before, since tensors point into them. */
static int load_regions(region_module* m) {
  char* why_no_device = NULL;
  size_t i;
  /* The text first, since it names the device. */
  int rc = tvmrt__region_set_read(m->json.data, m->json.size, m->constants.data, m->constants.size,
                                  &m->set);
  /* if there is a device, `why_no_device` stays NULL */
  if (rc == 0) rc = allow_fallback(m, take_device(m), &why_no_device);
  if (rc == 0) {
    m->regions = tvmrt__calloc(m->set.num_regions, sizeof(*m->regions));
    if (m->regions == NULL) rc = -1;
  }
  for (i = 0; rc == 0 && i < m->set.num_regions; ++i) rc = load_region(m, i, why_no_device);
  free(why_no_device);
  return rc;
}

/* Copies both, since the source may be freed once the library is loaded; constants in a mapped file
 * are used in place. */
static int make_module(const void* json, size_t json_size, const void* constants,
                       size_t constants_size, tvmrt_module** out) {
  region_module* m = tvmrt__module_new(&region_type, sizeof(*m));
  int rc = m == NULL ? -1 : tvmrt__buf_append(&m->json, json, json_size);
  if (rc == 0) rc = tvmrt__constants_init(&m->constants, constants, constants_size);
  if (rc == 0) rc = load_regions(m);
  *out = rc == 0 ? &m->base : NULL;
  if (rc != 0) tvmrt__module_release(m);
  return rc;
}

/* The loader of the kind: both parts are views of the library's bytes. */
static int read_regions(tvmrt_reader* in, tvmrt_module** out) {
  const char* json;
  const char* constants;
  size_t json_size;
  size_t constants_size;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_view(in, &json, &json_size));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_view(in, &constants, &constants_size));
  return make_module(json, json_size, constants, constants_size, out);
}

TVMRT_LOADER(load, read_regions)

/* Borrowed: it lives as long as the module. The function is compared, since another one may have a
 * region's name. */
int tvmrt__region_find(TVMModuleHandle module, const char* symbol, tvmrt_region** out_region) {
  tvmrt_func* f;
  *out_region = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(module, TVMRT_TYPE_MODULE, "tvmrt_region_find"));
  TVMRT_RETURN_IF_ERROR(tvmrt__module_get(module, symbol, true, &f));
  if (f != NULL && f->fn == tvmrt__loaded_region_call) {
    *out_region = &((tvmrt_loaded_region*)f->resource)->first.region;
  }
  if (f != NULL) tvmrt__release(&f->base);
  return *out_region != NULL ? 0 : tvmrt__fail_value("the module has no region '%.100s'.", symbol);
}

/* (JSON of regions, constants) -> module */
TVMRT_NATIVE(load_module) {
  TVMByteArray json;
  TVMByteArray constants;
  tvmrt_module* mod;
  TVMRT_COUNTED_ARGS(2, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &json));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 1, &constants));
  TVMRT_RETURN_IF_ERROR(make_module(json.data, json.size, constants.data, constants.size, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

enum { MAX_LEVELS = 8 }; /* maximum depth of imports; two or three are usual */

/* Limited to a few levels; module imports have no cycles. */
static int write_fallbacks(const tvmrt_module* mod, int levels, tvmrt_buf* text) {
  const region_module* m = (const region_module*)mod;
  size_t i;
  if (mod->type == &region_type) {
    return tvmrt__write_fallbacks(m->regions, m->num_regions, m->set.device, text);
  }
  if (levels == 0) return 0;
  /* An executor retains its library, libraries and factories import modules: both lead to
   * regions. */
  if (mod->library != NULL) return write_fallbacks(mod->library, levels - 1, text);
  for (i = 0; i < mod->num_imports; ++i) {
    TVMRT_RETURN_IF_ERROR(write_fallbacks(mod->imports[i], levels - 1, text));
  }
  return 0;
}

/* (library, factory or executor) -> JSON list: statistics of the regions with a fallback */
TVMRT_NATIVE(get_fallbacks) {
  tvmrt_module* mod;
  tvmrt_buf text = {NULL, 0, 0};
  int rc;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &mod));
  rc = tvmrt__buf_puts(&text, "[");
  if (rc == 0) rc = write_fallbacks(mod, MAX_LEVELS, &text);
  if (rc == 0) rc = tvmrt__buf_puts(&text, "]");
  return tvmrt__ret_buf(rc, kTVMStr, &text, out, out_code);
}

#define FUNCTIONS(X)                          \
  X("tvmrt.device.fallbacks", get_fallbacks)  \
  X("tvmrt.device.load_regions", load_module) \
  X(TVMRT_LOADER_PREFIX "device_region", load)
const tvmrt_builtins tvmrt__region_module_builtins = TVMRT_BUILTINS(FUNCTIONS);

/* Regions on devices other than their own, between which schedulers choose: each is loaded as if
 * its library had been compiled for that device.
 *
 * A region that a scheduler sends to another device is loaded for it once, with all checks of
 * loading, and lives as long as the region. Constants are shared; the other device is held.
 *
 * Each has its own lock and contexts. Lock order: the region's lock first; while it is held, the
 * list grows and shapes are copied. */
#include <stdlib.h>

#include "loaded_region.h"

typedef tvmrt_loaded_region loaded;

typedef struct tvmrt_alternate_device {
  loaded region;
  tvmrt_buf json;       /* of a library with only this region */
  tvmrt_region_set set; /* parsed from json */
  tvmrt_device* device; /* held */
  atomic_bool has_warned;
  struct tvmrt_alternate_device* next;
} alternate_device;

/* Accepts a partly filled struct: unset fields are NULL or zero. */
static void free_alternate(alternate_device* o) {
  tvmrt__loaded_region_free(&o->region);
  /* The region returns its graphs before its device may be unregistered. */
  tvmrt__device_put(o->device);
  tvmrt__region_set_free(&o->set);
  tvmrt__buf_free(&o->json);
  free(o);
}

/* Freed with the region, so no call is in progress on any of them. */
void tvmrt__alternates_free(loaded* self) {
  while (self->alternates != NULL) {
    alternate_device* o = self->alternates;
    self->alternates = o->next;
    free_alternate(o);
  }
}

/* By name, so that an invalid pointer is reported, after reading only its name. */
static int hold_device(alternate_device* o, tvmrt_device* device) {
  TVMRT_RETURN_IF_ERROR(tvmrt__device_take(device->name, &o->device));
  if (o->device == device) return 0;
  return tvmrt__fail_value(
      "a region was offered a device that is not registered; use one that tvmrt_device_find "
      "returns.");
}

/* The region's text from its library, wrapped as a library for the other device. Parsed again
 * instead of copied, since tensors change their shapes with their region. */
static int reparse(alternate_device* o, const loaded* self) {
  const tvmrt_constants* constants = self->constants;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(
      &o->json,
      "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"%s\", \"regions\": [",
      o->device->name));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&o->json, self->text, self->text_size));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(&o->json, "]}"));
  return tvmrt__region_set_read(o->json.data, o->json.size, constants->data, constants->size,
                                &o->set);
}

/* Tensors have the layout of the own device, and calls do not convert it. */
static int check_layout(const alternate_device* o, const loaded* self) {
  const tvmrt_region* r = &self->initial;
  int32_t i;
  for (i = 0; i < r->num_inputs + r->num_outputs; ++i) {
    const int32_t t = i < r->num_inputs ? r->inputs[i] : r->outputs[i - r->num_inputs];
    if (self->any_layout && !o->region.any_layout && r->tensors[t].ndim > 2) {
      return tvmrt__fail_value(
          "device '%s' needs the default tensor layout, but tensor '%.80s' of region '%.100s' is "
          "channels-last for the region's own device.",
          o->device->name, r->tensors[t].name, r->symbol);
    }
  }
  return 0;
}

/* Copy the region's current shapes. Called with its lock held, so that they do not change. */
static int copy_shapes(alternate_device* o, const loaded* self) {
  const tvmrt_region* from = &self->first.region;
  tvmrt_region* to = &o->region.first.region;
  tvmrt_region_shape* shapes;
  int32_t i;
  int rc;
  if (self->sizes.count != 0 || tvmrt__region_is_dynamic(from)) return 0; /* calls set them */
  shapes = tvmrt__calloc((size_t)from->num_inputs, sizeof(*shapes));
  if (shapes == NULL) return -1;
  for (i = 0; i < from->num_inputs; ++i) {
    shapes[i].tensor = from->inputs[i];
    shapes[i].shape = from->tensors[from->inputs[i]].shape;
  }
  rc = tvmrt__region_reshape(to, shapes, from->num_inputs);
  free(shapes);
  return rc;
}

/* Whether the region's inputs were reshaped since loading. */
static bool is_reshaped(const alternate_device* o, const loaded* self) {
  const tvmrt_region* a = &self->first.region;
  const tvmrt_region* b = &o->region.first.region;
  int32_t i;
  for (i = 0; i < a->num_inputs; ++i) {
    const tvmrt_region_tensor* t = &a->tensors[a->inputs[i]];
    const size_t bytes = (size_t)t->ndim * sizeof(*t->shape);
    if (bytes != 0 && memcmp(t->shape, b->tensors[a->inputs[i]].shape, bytes) != 0) return true;
  }
  return false;
}

/* On failure the caller frees it. */
static int fill(alternate_device* o, const loaded* self, tvmrt_device* device) {
  TVMRT_RETURN_IF_ERROR(hold_device(o, device));
  TVMRT_RETURN_IF_ERROR(reparse(o, self));
  o->region.has_warned = &o->has_warned;
  o->region.text = o->json.data + o->set.regions[0].text_begin;
  o->region.text_size = o->set.regions[0].text_size;
  o->region.constants = self->constants;
  /* Without options: the library's are specific to its own device. */
  TVMRT_RETURN_IF_ERROR(
      tvmrt__loaded_region_init(&o->region, &o->set.regions[0], o->device, NULL, &o->set.arena));
  TVMRT_RETURN_IF_ERROR(check_layout(o, self));
  return is_reshaped(o, self) ? copy_shapes(o, self) : 0;
}

/* By address, which is unique while the device is held. */
static loaded* find(const loaded* self, const tvmrt_device* device) {
  alternate_device* o = self->alternates;
  while (o != NULL && o->device != device) o = o->next;
  return o == NULL ? NULL : &o->region;
}

/* Called with the region's lock held, so that it is prepared once, for shapes that do not change
 * meanwhile. */
static loaded* find_or_make(loaded* self, tvmrt_device* device) {
  loaded* found = find(self, device);
  alternate_device* o;
  if (found != NULL) return found;
  o = tvmrt__calloc(1, sizeof(*o));
  if (o == NULL) return NULL;
  if (fill(o, self, device) != 0) {
    free_alternate(o);
    return NULL;
  }
  o->next = self->alternates;
  self->alternates = o;
  return &o->region;
}

/* Preparing may take long; calls of the region wait for it, as they may need the result. */
loaded* tvmrt__region_on(loaded* self, tvmrt_device* device) {
  loaded* found;
  tvmrt__lock(&self->lock);
  found = find_or_make(self, device);
  tvmrt__unlock(&self->lock);
  return found;
}

/* 0, or -1 with an error that names the missing compile option. */
int tvmrt__region_on_cpu(const loaded* self) {
  if (self->falls_back) return 0;
  return tvmrt__fail_value(
      "region '%.100s' has no code for the CPU: compile the network with "
      "device_fallback.",
      self->initial.symbol);
}

/* A region that cannot be prepared for these shapes fails when it is called; the region itself has
 * them. */
void tvmrt__alternates_reshape(loaded* self, const tvmrt_region_shape* shapes, int32_t num_shapes) {
  alternate_device* o;
  for (o = self->alternates; o != NULL; o = o->next) {
    if (tvmrt__region_reshape(&o->region.first.region, shapes, num_shapes) != 0) {
      tvmrt__forget_error();
    }
  }
}

/* Called by schedulers while they prepare, so that an impossible choice is detected before a
 * run. */
int tvmrt__region_offer(tvmrt_region* region, tvmrt_device* device) {
  loaded* self = region == NULL ? NULL : region->runtime;
  if (self == NULL || device == NULL) {
    return tvmrt__fail_value("tvmrt_region_offer: there is no %s.",
                             self == NULL ? "region of a loaded library" : "device");
  }
  if (device == self->device) return 0;
  if (tvmrt__is_cpu(device)) return tvmrt__region_on_cpu(self);
  return tvmrt__region_on(self, device) == NULL ? -1 : 0;
}

/* Reading of the module tree that a library carries in `__tvm_dev_mblob`.
 *
 * u64 N, then N bytes: u64 count; per entry u64 length, type key, payload of that kind. Entry
 * "_lib" stands for the library itself; entry "_import_tree" gives the imports of all others as
 * compressed rows: vec<u64> row_ptr, vec<u64> child_indices. Without a tree all entries are imports
 * of the library.
 *
 * A library that imports one module of kind "k", whose payload is the 64-bit number 7:
 *
 *   N | 3 | 4 "_lib" | 1 "k" 7 | 12 "_import_tree" | 3: 0 1 1 | 1: 1
 *
 * Module 0 is the library, module 1 is of kind "k". The imports of module i are the children from
 * row_ptr[i] up to row_ptr[i + 1]: module 0 imports module 1, module 1 nothing. Modules precede
 * their imports, so the first one is the root and no file can contain a cycle. Trees are written by
 * the compiler, python/tvmrt/compiler/export/blob.py. */
#include <stdlib.h>
#include <string.h>

#include "module.h"

/* A tree as it was read, in the order of the entries: child numbers are indices of `modules`. */
typedef struct tree {
  tvmrt_module** modules; /* retained */
  size_t num_modules;
  uint64_t* row_ptr; /* NULL without a tree */
  size_t num_rows;
  uint64_t* children;
  size_t num_children;
  bool has_library;
} tree;

/* Also for a partly read tree; the returned root has been retained for the caller by then. */
static void free_tree(tree* t) {
  size_t i;
  for (i = 0; i < t->num_modules; ++i) tvmrt__module_release(t->modules[i]);
  free(t->modules);
  free(t->row_ptr);
  free(t->children);
}

/* Read a count, then as many 64-bit numbers. The count is checked against the remaining bytes, so
 * the allocation is bounded. */
static int read_numbers(tvmrt_reader* in, uint64_t** out, size_t* out_count) {
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 8, out_count));
  free(*out); /* a second tree in a damaged blob replaces the first */
  *out = tvmrt__calloc(*out_count, sizeof(**out));
  if (*out == NULL) return -1;
  for (i = 0; i < *out_count; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &(*out)[i]));
  return 0;
}

/* Takes ownership of the reference, also on failure. */
static int add_module(tree* t, tvmrt_module* owned) {
  void* modules = t->modules;
  if (tvmrt__grow(&modules, t->num_modules, sizeof(*t->modules)) != 0) {
    tvmrt__module_release(owned);
    return -1;
  }
  t->modules = modules;
  t->modules[t->num_modules++] = owned;
  return 0;
}

/* The payload of another kind is read by its loader, possibly a plug-in's, which leaves the reader
 * after its part. */
static int read_entry(tvmrt_reader* in, const char* key, tvmrt_module* library, tree* t) {
  tvmrt_module* mod;
  if (strcmp(key, TVMRT_MBLOB_TREE) == 0) {
    TVMRT_RETURN_IF_ERROR(read_numbers(in, &t->row_ptr, &t->num_rows));
    return read_numbers(in, &t->children, &t->num_children);
  }
  if (strcmp(key, TVMRT_MBLOB_LIBRARY) == 0) {
    if (t->has_library) return tvmrt__reader_fail(in, "the library is listed twice");
    t->has_library = true;
    tvmrt__retain(&library->base);
    return add_module(t, library);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__read_kind(in, key, &mod));
  return add_module(t, mod);
}

/* Read a count, then a key and a payload each. Payloads state no length, so an unknown kind ends
 * the reading. */
static int read_entries(tvmrt_reader* in, tvmrt_module* library, tree* t) {
  size_t count;
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 8, &count));
  for (i = 0; i < count; ++i) {
    char* key;
    int rc;
    TVMRT_RETURN_IF_ERROR(tvmrt__read_string(in, &key));
    rc = read_entry(in, key, library, t);
    free(key);
    if (rc != 0) return rc;
  }
  return 0;
}

/* Rows must be monotonic and children point forward, so that the tree has no cycle. */
static int check_tree(const tvmrt_reader* in, const tree* t) {
  size_t i;
  uint64_t k;
  if (t->num_rows != t->num_modules + 1 || t->row_ptr[0] != 0 ||
      t->row_ptr[t->num_modules] != t->num_children) {
    return tvmrt__reader_fail(in, "the import tree does not fit the modules");
  }
  for (i = 0; i < t->num_modules; ++i) {
    if (t->row_ptr[i] > t->row_ptr[i + 1] || t->row_ptr[i + 1] > t->num_children) {
      return tvmrt__reader_fail(in, "the row pointers of the import tree are not ascending");
    }
    for (k = t->row_ptr[i]; k < t->row_ptr[i + 1]; ++k) {
      if (t->children[k] <= i || t->children[k] >= t->num_modules) {
        return tvmrt__reader_fail(in, "the import tree refers to a missing or an earlier module");
      }
    }
  }
  return 0;
}

/* A library that is loaded again keeps its imports from the first time (`linked`). */
static int link_tree(const tree* t, const tvmrt_module* linked, tvmrt_module** out_root) {
  size_t i;
  uint64_t k;
  for (i = 0; i < t->num_modules; ++i) {
    if (t->modules[i] == linked) continue;
    for (k = t->row_ptr[i]; k < t->row_ptr[i + 1]; ++k) {
      TVMRT_RETURN_IF_ERROR(tvmrt__module_import(t->modules[i], t->modules[t->children[k]]));
    }
  }
  *out_root = t->modules[0];
  return 0;
}

/* The old layout without a tree: all modules are imports of the library. */
static int import_all(const tree* t, tvmrt_module* library, tvmrt_module** out_root) {
  size_t i;
  for (i = 0; i < t->num_modules; ++i) {
    if (t->modules[i] == library) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__module_import(library, t->modules[i]));
  }
  *out_root = library;
  return 0;
}

/* Children only point forward, so the first module is the root. */
static int link_modules(const tvmrt_reader* in, const tree* t, tvmrt_module* library,
                        tvmrt_module** out_root) {
  const tvmrt_module* linked = library->num_imports > 0 ? library : NULL;
  if (t->row_ptr == NULL || t->num_modules == 0) {
    if (linked == NULL) return import_all(t, library, out_root);
    *out_root = library;
    return 0;
  }
  TVMRT_RETURN_IF_ERROR(check_tree(in, t));
  return link_tree(t, linked, out_root);
}

/* The library is one of the tree's modules, and may have imports of an earlier load, which are then
 * kept. *out_root is owned. */
int tvmrt__mblob_restore(const uint8_t* blob, size_t symbol_size, tvmrt_module* library,
                         tvmrt_module** out_root) {
  tvmrt_reader in;
  uint64_t size;
  tree t = {0};
  tvmrt_module* root = NULL;
  const bool first = library->num_imports == 0;
  int rc;
  *out_root = NULL;
  tvmrt__reader_init(&in, "the embedded module tree", blob, symbol_size == 0 ? 8 : symbol_size);
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 8, &size));
  if (symbol_size != 0 && size > tvmrt__reader_left(&in)) {
    return tvmrt__reader_fail(&in, "its length is larger than its symbol");
  }
  if (size > PTRDIFF_MAX) return tvmrt__reader_fail(&in, "its length is larger than memory");
  in.bytes.end = in.bytes.at + size; /* without a symbol size, the length is trusted */
  rc = read_entries(&in, library, &t);
  if (rc == 0) rc = link_modules(&in, &t, library, &root);
  if (rc == 0) {
    tvmrt__retain(&root->base);
    *out_root = root;
  } else if (first) {
    tvmrt__module_clear_imports(library); /* discard a partly linked tree */
  }
  free_tree(&t);
  return rc;
}

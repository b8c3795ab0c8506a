/* A tool for ITT: prints what tasks begin and end. Loaded through INTEL_LIBITTNOTIFY64. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
  const char *name;
  void **function;
  void *first, *none;
  int group;
};
struct global {
  unsigned char magic[8];
  unsigned long versions[3];
  volatile long counts[3];
  pthread_mutex_t mutex;
  void *library, *error;
  const char **path;
  struct entry *entries;
};
struct domain {
  volatile int flags;
  const char *name;
  const void *wide;
  int extra;
  void *more, *next;
};
struct handle {
  const char *text;
  const void *wide;
  int extra;
  void *more, *next;
};
struct id {
  unsigned long long parts[3];
};

static int depth, begun, texts;

static struct domain *domain_create(const char *name) {
  struct domain *made = calloc(1, sizeof *made);
  made->flags = 1;
  made->name = strdup(name);
  return made;
}

static struct handle *handle_create(const char *text) {
  struct handle *made = calloc(1, sizeof *made);
  texts++;
  made->text = strdup(text);
  return made;
}

static void task_begin(const struct domain *d, struct id task, struct id parent, struct handle *h) {
  begun++;
  if (!getenv("QUIET")) printf("%d %s\n", depth, h->text);
  depth++;
}

static void task_end(const struct domain *d) { depth--; }

static void finish(void) { printf("depth %d, pushed %d, texts %d\n", depth, begun, texts); }

void __itt_api_init(struct global *given, int groups) {
  struct { const char *name; void *function; } own[] = {
      {"__itt_domain_create", domain_create},
      {"__itt_string_handle_create", handle_create},
      {"__itt_task_begin", task_begin},
      {"__itt_task_end", task_end},
  };
  for (struct entry *each = given->entries; each->name; each++)
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
      if (!strcmp(each->name, own[i].name)) *each->function = own[i].function;
  atexit(finish);
}

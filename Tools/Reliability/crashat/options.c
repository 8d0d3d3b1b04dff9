#if defined(__linux__)

#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static void usage(void) {
  fputs(
    "usage: crashat --root DIR [--at N --action ACTION] [options] -- COMMAND [ARGUMENT...]\n"
    "\n"
    "Runs COMMAND, counts over all its threads and children the file system calls that touch DIR, and at the N-th\n"
    "does ACTION. Exits as COMMAND does, 128 + the signal that ended it, or 125.\n"
    "\n"
    "actions:\n"
    "  list           nothing (the default)\n"
    "  kill           kill before the call\n"
    "  fail=ERROR     the call fails with ERROR, a name such as EIO or a number (close closes all the same)\n"
    "  fail-on=ERROR  so does every later call that touches DIR\n"
    "  short=K        the call reads or writes at most K bytes\n"
    "  torn=K         the call reads or writes at most K bytes, then kill\n"
    "  hold           run the other command first\n"
    "\n"
    "options:\n"
    "  --other LINE          the other command, for sh -c\n"
    "  --until blocked|end   hold until it has ended or waits for something (the default), or until it has ended\n"
    "  --after continue|kill what becomes of COMMAND then\n"
    "  --timeout SECONDS     kill everything after so long; 60\n"
    "  --log FILE            one JSON object a line: a \"call\" for each counted call, and an \"end\"; else stderr\n",
    stderr);
}

static bool fail(const char *message, const char *value) {
  fprintf(stderr, "crashat: %s: %s\n", message, value);
  return false;
}

static bool parse_number(const char *text, long *number) {
  char *end;
  errno = 0;
  *number = strtol(text, &end, 10);
  return errno == 0 && *text != 0 && *end == 0 && *number >= 0;
}

static bool parse_error(const char *text, int *error) {
  static const struct {
    const char *name;
    int number;
  } errors[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EACCES", EACCES},
    {"EMFILE", EMFILE}, {"ENFILE", ENFILE}, {"ENOMEM", ENOMEM}, {"EINTR", EINTR}, {"EAGAIN", EAGAIN},
    {"ESTALE", ESTALE}, {"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"ENOENT", ENOENT},
  };
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (strcmp(errors[i].name, text) == 0) {
      *error = errors[i].number;
      return true;
    }
  }
  long number;
  if (!parse_number(text, &number) || number < 1 || number > 4095) return fail("no error", text);
  *error = (int)number;
  return true;
}

static bool parse_action(char *text, struct options *options) {
  char *value = strchr(text, '=');
  if (value) *value++ = 0;
  static const struct {
    const char *name;
    enum action action;
    enum { VALUE_NONE, VALUE_ERROR, VALUE_COUNT } value;
  } actions[] = {
    {"list", ACTION_LIST, VALUE_NONE},   {"kill", ACTION_KILL, VALUE_NONE},
    {"fail", ACTION_FAIL, VALUE_ERROR},  {"fail-on", ACTION_FAIL_ON, VALUE_ERROR},
    {"short", ACTION_SHORT, VALUE_COUNT}, {"torn", ACTION_TORN, VALUE_COUNT},
    {"hold", ACTION_HOLD, VALUE_NONE},
  };
  for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
    if (strcmp(actions[i].name, text) != 0) continue;
    options->action = actions[i].action;
    if ((actions[i].value == VALUE_NONE) != (value == NULL)) return fail("wrong value for the action", text);
    switch (actions[i].value) {
      case VALUE_NONE: return true;
      case VALUE_ERROR: return parse_error(value, &options->error);
      case VALUE_COUNT: return parse_number(value, &options->byte_count) || fail("no count", value);
    }
  }
  return fail("no action", text);
}

// Resolves symbolic links in the directory's path, as the kernel reports paths. The last component need not exist.
static bool resolve_root(const char *path, struct options *options) {
  if (realpath(path, options->root)) return true;
  if (errno != ENOENT) return fail(strerror(errno), path);
  char *copy = strdup(path);
  if (!copy) return fail(strerror(errno), path);
  for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--) copy[length - 1] = 0;
  char *slash = strrchr(copy, '/');
  const char *name = slash ? slash + 1 : copy;
  char parent[PATH_MAX];
  if (slash) *slash = 0;
  bool resolved = realpath(slash ? (*copy ? copy : "/") : ".", parent) != NULL;
  if (resolved) resolved = snprintf(options->root, PATH_MAX, "%s/%s", parent, name) < PATH_MAX;
  free(copy);
  return resolved || fail("no such directory", path);
}

static bool is_choice(const char *value, const char *first, const char *second, bool *is_second) {
  *is_second = strcmp(value, second) == 0;
  return *is_second || strcmp(value, first) == 0 || fail("no such choice", value);
}

bool parse_options(int argc, char **argv, struct options *options) {
  *options = (struct options){.timeout_seconds = 60, .log = stderr};
  static const struct option long_options[] = {
    {"root", required_argument, NULL, 'r'},  {"at", required_argument, NULL, 'n'},
    {"action", required_argument, NULL, 'a'}, {"other", required_argument, NULL, 'o'},
    {"until", required_argument, NULL, 'u'}, {"after", required_argument, NULL, 'f'},
    {"timeout", required_argument, NULL, 't'}, {"log", required_argument, NULL, 'l'},
    {NULL, 0, NULL, 0},
  };
  int option;
  while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
    bool understood = true;
    long seconds;
    switch (option) {
      case 'r': understood = resolve_root(optarg, options); break;
      case 'n': understood = parse_number(optarg, &options->at) || fail("no number", optarg); break;
      case 'a': understood = parse_action(optarg, options); break;
      case 'o': options->other = optarg; break;
      case 'u': understood = is_choice(optarg, "blocked", "end", &options->holds_until_end); break;
      case 'f': understood = is_choice(optarg, "continue", "kill", &options->kills_after_hold); break;
      case 't':
        understood = parse_number(optarg, &seconds) || fail("no number", optarg);
        if (understood) options->timeout_seconds = (unsigned)seconds;
        break;
      case 'l':
        options->log = fopen(optarg, "we");
        if (!options->log) understood = fail(strerror(errno), optarg);
        break;
      default:
        usage();
        return false;
    }
    if (!understood) return false;
  }
  if (!options->root[0] || optind == argc || (options->action == ACTION_HOLD) != (options->other != NULL)) {
    usage();
    return false;
  }
  options->command = argv + optind;
  return true;
}

#endif

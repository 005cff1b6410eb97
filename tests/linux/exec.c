/* Starting programs: arguments, environment, scripts, close-on-exec, signals, refusals. */
#include "check.h"
#include <sys/auxv.h>
#include <sys/stat.h>

extern char **environ;
static const char *self;

static void put(const char *path, const void *bytes, size_t count, int mode) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, bytes, count) == (ssize_t)count && fchmod(file, mode) == 0 && close(file) == 0);
}

static int run(char **arguments, char **environment, const char *path) {
    pid_t child = fork();
    if (child == 0) {
        execve(path, arguments, environment);
        _exit(errno);
    }
    int status = status_of(child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The checks of the started program. */
static int started(int count, char **arguments) {
    CHECK(count == 4 && !strcmp(arguments[2], "second") && !strcmp(arguments[3], "") && arguments[4] == NULL);
    CHECK(!strcmp(environ[0], "ONLY=this") && environ[1] == NULL);
    CHECK(fcntl(100, F_GETFD) == -1 && fcntl(101, F_GETFD) == 0);
    struct sigaction action;
    CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
    sigset_t blocked;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 && sigismember(&blocked, SIGHUP));
    CHECK(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_ENTRY) != 0 && getauxval(AT_RANDOM) != 0 && getauxval(AT_SECURE) == 0);
    CHECK(getauxval(AT_UID) == getuid() && !strcmp((char *)getauxval(AT_EXECFN), self));
    return 42;
}

static void on_signal(int signal) { (void)signal; }

int main(int count, char **arguments) {
    self = arguments[0];
    if (count > 1 && !strcmp(arguments[1], "script")) return count == 4 && !strcmp(arguments[2], "/tmp/script") && !strcmp(arguments[3], "x") ? 43 : 1;
    if (count > 1) return started(count, arguments);
    CHECK(dup2(1, 100) == 100 && fcntl(100, F_SETFD, FD_CLOEXEC) == 0 && dup2(1, 101) == 101);
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, SIG_IGN);
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hangup, NULL);
    char *given[] = {(char *)self, "first", "second", "", NULL}, *environment[] = {"ONLY=this", NULL};
    CHECK(run(given, environment, self) == 42);

    char line[300];
    snprintf(line, sizeof line, "#! %s script \n", self);
    put("/tmp/script", line, strlen(line), 0755);
    char *script[] = {"ignored", "x", NULL};
    CHECK(run(script, environment, "/tmp/script") == 43);
    put("/tmp/loop", "#!/tmp/loop\n", 12, 0755);
    CHECK(run(script, environment, "/tmp/loop") == ELOOP);
    CHECK(run(script, environment, "/tmp/none") == ENOENT);
    CHECK(run(script, environment, "/tmp") == EACCES);
    put("/tmp/plain", "text", 4, 0644);
    CHECK(run(script, environment, "/tmp/plain") == EACCES);
    chmod("/tmp/plain", 0755);
    CHECK(run(script, environment, "/tmp/plain") == ENOEXEC);
    CHECK(run(script, environment, "/tmp/plain/x") == ENOTDIR);
    CHECK(run(script, environment, "") == ENOENT);
    CHECK(run((char **)8, environment, self) == EFAULT);
    static char big[200000];
    memset(big, 'a', sizeof big - 1);
    char *too_long[] = {(char *)self, big, NULL};
    CHECK(run(too_long, environment, self) == E2BIG);
    unlink("/tmp/script"), unlink("/tmp/loop"), unlink("/tmp/plain");
    done("exec");
    return 0;
}

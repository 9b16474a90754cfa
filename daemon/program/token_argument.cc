#include "daemon/program/token_argument.h"

#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

constexpr char kStandardInput[] = "-";

// More than any token with white space around it.
constexpr size_t kMostRead = 4 * kLongestJoinToken;

// Text that was pasted in one piece has arrived by then, even over a slow line to the terminal.
constexpr int kNextLineMilliseconds = 300;

// Hides what is typed at a terminal while this object lives.
class Unseen {
 public:
  explicit Unseen(int fd) : fd_(fd) {
    if (tcgetattr(fd_, &before_) != 0) return;
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    changed_ = tcsetattr(fd_, TCSAFLUSH, &hidden) == 0;
  }
  ~Unseen() {
    if (changed_) tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  const int fd_;
  termios before_ = {};
  bool changed_ = false;
};

// Reads the file to its end.
absl::StatusOr<std::string> ReadAll(FILE* in, absl::string_view name) {
  std::string text;
  int c = 0;
  while (text.size() <= kMostRead && (c = std::fgetc(in)) != EOF) {
    text.push_back(static_cast<char>(c));
  }
  if (std::ferror(in) == 0) return text;
  return absl::UnavailableError(absl::StrCat(name, ": ", std::strerror(errno)));
}

// A terminal gives one line at a time, and a mail program may have folded the token into several.
// So further lines are read while the token is incomplete and the next line is available already.
std::string ReadPastedLines(FILE* in) {
  std::string text;
  int c = 0;
  while (text.size() <= kMostRead && (c = std::fgetc(in)) != EOF) {
    text.push_back(static_cast<char>(c));
    if (c != '\n') continue;
    pollfd next = {fileno(in), POLLIN, 0};
    if (ParseJoinToken(text).ok() || poll(&next, 1, kNextLineMilliseconds) != 1) break;
  }
  return text;
}

absl::StatusOr<std::string> ReadStandardInput(FILE* in, FILE* err) {
  const bool terminal = isatty(fileno(in)) != 0;
  if (!terminal) return ReadAll(in, "standard input");
  PrintLine(err, "Paste the token, then Return (it is not shown):");
  const Unseen unseen(fileno(in));
  return ReadPastedLines(in);
}

absl::StatusOr<std::string> ReadTokenFile(Files& files, const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) {
    return errno == ENOENT || errno == ENOTDIR
               ? absl::NotFoundError(absl::StrCat("--token-file ", path, ": there is no such file"))
               : absl::PermissionDeniedError(
                     absl::StrCat("--token-file ", path, ": ", std::strerror(errno)));
  }
  if (S_ISDIR(about.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("--token-file ", path, ": is a folder"));
  }
  if (S_ISREG(about.st_mode)) {
    ASSIGN_OR_RETURN(const bool hidden, files.IsPrivate(path));
    if (!hidden) {
      return absl::FailedPreconditionError(
          absl::StrCat("--token-file ", path,
                       ": others may read this token; make it its owner's alone (chmod "
                       "600), or revoke it if somebody may have read it"));
    }
  }
  FILE* const in = std::fopen(path.c_str(), "re");
  if (in == nullptr) {
    return absl::PermissionDeniedError(
        absl::StrCat("--token-file ", path, ": ", std::strerror(errno)));
  }
  absl::StatusOr<std::string> text = ReadAll(in, path);
  std::fclose(in);
  return text;
}

}  // namespace

std::pair<Option, Option> AddTokenArgument(const Verb& verb, TokenArgument& argument,
                                           const std::string& meaning) {
  const Option token = verb.Add("TOKEN", argument.token, meaning);
  const Option file = verb.Add("--token-file", argument.file,
                               "The file that holds it, its owner's alone; - is standard input")
                          .File();
  file.Excludes(token);
  return {token, file};
}

absl::StatusOr<std::string> ReadToken(Files& files, const TokenArgument& argument, FILE* in,
                                      FILE* err) {
  const std::string& file = argument.file;
  std::string name =
      file == kStandardInput ? "standard input" : absl::StrCat("--token-file ", file);
  absl::StatusOr<std::string> text;
  if (!argument.given()) {
    return absl::InvalidArgumentError(
        "a token is needed: --token-file FILE, or - for standard input");
  }
  if (file == kStandardInput || argument.token == kStandardInput) {
    name = "standard input";
    text = ReadStandardInput(in, err);
  } else if (!file.empty()) {
    text = ReadTokenFile(files, file);
  } else {
    name = "TOKEN";
    text = argument.token;
    PrintLine(err,
              "warning: other users of this machine can see a token that is an argument; put it "
              "into a file of mode 600 and name that with --token-file, or give - and pipe it in");
  }
  if (!text.ok()) return text.status();
  const absl::StatusOr<std::string> token = CleanJoinToken(*text);
  if (!token.ok()) return Annotate(token.status(), name);
  if (token->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": is empty; a token is needed"));
  }
  return token;
}

}  // namespace atolld

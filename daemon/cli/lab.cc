#include "daemon/cli/lab.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr char kNodes[] = "ATOLL_LAB_NODES";
constexpr char kLab[] = "ATOLL_LAB";
// Relative to the folder of the binaries: as packages install them, and build/PRESET/bin of the
// source tree.
constexpr const char* kLabs[] = {"../lib/atoll/lab/lab", "../../../tests/wan/lab"};
constexpr const char* kLineFolders[] = {".", "../lib/atoll"};
constexpr char kLines[] = "atoll-wan";
constexpr char kTunDevice[] = "/dev/net/tun";
constexpr int kAnswerSeconds = 20;

std::vector<std::string> OwnCall() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words = absl::StrSplit(text, '\0');
  if (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

bool MayRun(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

absl::StatusOr<std::string> FindLab() {
  if (const char* const named = std::getenv(kLab)) {
    if (MayRun(named)) return named;
    return absl::UnavailableError(absl::StrCat("there is no lab at ", named, ", which ", kLab,
                                               " names; leave it unset, or name tests/wan/lab"));
  }
  for (const char* const place : kLabs) {
    const std::string path = absl::StrCat(ProgramFolder(), "/", place);
    if (MayRun(path)) return path;
  }
  return absl::UnavailableError(absl::StrCat(
      "there is no lab beside this program; the package atoll has it in /usr/lib/atoll/lab, the "
      "source tree in tests/wan, and ",
      kLab, " names another"));
}

// Returns the folder of the program that simulates the lines.
absl::StatusOr<std::string> FindLines() {
  for (const char* const place : kLineFolders) {
    const std::string folder = absl::StrCat(ProgramFolder(), "/", place);
    if (MayRun(absl::StrCat(folder, "/", kLines))) return folder;
  }
  return absl::UnavailableError(
      absl::StrCat("the lab needs ", ProgramFolder(), "/", kLines, ": build the target ", kLines));
}

absl::Status FindProgram(const std::string& name, const char* package) {
  const char* const path = std::getenv("PATH");
  const std::string folders = absl::StrCat(path == nullptr ? "" : path, ":/usr/sbin:/sbin");
  for (const absl::string_view folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    if (MayRun(absl::StrCat(folder, "/", name))) return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("the lab needs the program ", name, " (Debian: ", package, ")"));
}

// Asks the kernel, from a child that ends immediately: a container's root may be refused.
absl::Status TryNamespaces() {
  const pid_t child = fork();
  if (child < 0) return absl::UnavailableError(absl::StrCat("fork: ", std::strerror(errno)));
  if (child == 0) _exit(unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID) == 0 ? 0 : errno);
  const ExitStatus status = ChildProcess::Await(child);
  if (status.ok()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the lab makes network, mount and process namespaces, and the kernel refuses "
                   "them here: ",
                   std::strerror(status.signal == 0 ? status.code : EPERM),
                   "; in a container that takes --privileged"));
}

}  // namespace

bool InLab() { return std::getenv(kNodes) != nullptr; }

std::map<std::string, std::string> LabNodes() {
  const char* const told = std::getenv(kNodes);
  std::map<std::string, std::string> nodes;
  for (absl::string_view node :
       absl::StrSplit(told == nullptr ? "" : told, ' ', absl::SkipEmpty())) {
    nodes.insert(absl::StrSplit(node, absl::MaxSplits('=', 1)));
  }
  return nodes;
}

std::vector<std::string> OnLabNode(const std::string& node) {
  return {"/usr/bin/env", "ip", "netns", "exec", node};
}

absl::Status CheckLab() {
  RETURN_IF_ERROR(FindLab().status());
  RETURN_IF_ERROR(FindLines().status());
  RETURN_IF_ERROR(FindProgram("ip", "iproute2"));
  RETURN_IF_ERROR(FindProgram("python3", "python3"));
  const std::vector<std::string> reads_toml = {"/usr/bin/env", "python3", "-c", "import tomllib"};
  if (!RunAndCapture(reads_toml, kAnswerSeconds).ok()) {
    return absl::UnavailableError("the lab needs python3 of release 3.11 or newer");
  }
  if (geteuid() != 0) {
    return absl::PermissionDeniedError("the lab needs root: it makes network namespaces");
  }
  if (access(kTunDevice, R_OK | W_OK) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the lab needs ", kTunDevice, " (", std::strerror(errno),
                     "): `modprobe tun` makes it; a container is given it by --device"));
  }
  return TryNamespaces();
}

absl::Status EnterLab(const LabCall& call) {
  RETURN_IF_ERROR(CheckLab());
  ASSIGN_OR_RETURN(const std::string lab, FindLab());
  ASSIGN_OR_RETURN(const std::string lines, FindLines());
  std::vector<std::string> words = {lab, "drive"};
  if (call.quiet) words.push_back("--quiet");
  words.insert(words.end(), {call.topology, "--"});
  if (!call.node.empty()) {
    const std::vector<std::string> there = OnLabNode(call.node);
    words.insert(words.end(), there.begin(), there.end());
  }
  std::vector<std::string> own = OwnCall();
  std::error_code error;
  own.at(0) = std::filesystem::read_symlink("/proc/self/exe", error).string();
  words.insert(words.end(), own.begin(), own.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv("ATOLL_BIN", lines.c_str(), 1);
  execv(lab.c_str(), arguments.data());
  return absl::UnknownError(absl::StrCat(lab, ": ", std::strerror(errno)));
}

}  // namespace atolld

#include "daemon/experiment/compose_engine.h"

#include "absl/strings/str_cat.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr int kAnswerSeconds = 20;
constexpr char kByPath[] = "/usr/bin/env";  // looks a program up

absl::Status Answers(const std::vector<std::string>& command) {
  return RunAndCapture(command, kAnswerSeconds).status();
}

}  // namespace

std::vector<std::string> EngineCommand() { return {kByPath, "docker"}; }

absl::StatusOr<std::vector<std::string>> FindComposeEngine() {
  const absl::Status docker = Answers({kByPath, "docker", "version"});
  if (!docker.ok()) {
    return absl::UnavailableError(
        absl::StrCat("no container engine answers here, `docker version` says: ", docker.message(),
                     "; install one (Debian: docker.io and docker-compose), start it, and be root "
                     "or of the group docker"));
  }
  const std::vector<std::vector<std::string>> known = {{kByPath, "docker", "compose"},
                                                       {kByPath, "docker-compose"}};
  for (const std::vector<std::string>& compose : known) {
    std::vector<std::string> version = compose;
    version.push_back("version");
    if (!Answers(version).ok()) continue;
    if (Answers({kByPath, "docker", "image", "inspect", kContainerImage}).ok()) return compose;
    return absl::NotFoundError(
        absl::StrCat("the container engine has no image ", kContainerImage,
                     "; `docker compose build` in Atoll's source tree makes it"));
  }
  return absl::UnavailableError(
      "there is a container engine, but neither `docker compose` nor docker-compose (Debian: "
      "docker-compose)");
}

}  // namespace atolld

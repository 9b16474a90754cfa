#include "daemon/atolld/http_port.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "daemon/env/network.h"
#include "daemon/program/process_folder.h"
#include "daemon/web/http_access.h"

namespace atolld {
namespace {

constexpr char kUsualAddress[] = "127.0.0.1:7080";
constexpr char kFreeAddress[] = "127.0.0.1:0";

std::string HttpFileOf(const std::string& dir) { return absl::StrCat(dir, "/", kHttpFile); }

// Returns the "127.0.0.1:7080" that was written last time; empty if there is nothing usable.
std::string FormerAddress(Files& files, const std::string& dir) {
  const std::string url = ReadHttpFile(files, dir);
  absl::string_view address = url;
  if (!absl::ConsumePrefix(&address, "http://")) absl::ConsumePrefix(&address, "https://");
  absl::ConsumeSuffix(&address, "/");
  return std::string(address);
}

absl::StatusOr<HttpServer::Access> AccessOf(Files& files, const Config::Http& http) {
  HttpServer::Access access;
  access.certificate = http.certificate;
  access.key = http.key;
  if (!http.token_file.empty()) {
    ASSIGN_OR_RETURN(access.token, ReadHttpToken(files, http.token_file));
  }
  return access;
}

// A browser that is open finds the port again after a restart.
std::vector<std::string> AddressesToTry(const std::string& listen, const std::string& former) {
  if (listen != "auto") {
    const bool any_port = absl::EndsWith(listen, ":0");
    const std::string host = listen.substr(0, listen.rfind(':') + 1);
    const bool same_host =
        former.rfind(':') != std::string::npos && former.substr(0, former.rfind(':') + 1) == host;
    if (any_port && same_host) return {former, listen};
    return {listen};
  }
  std::vector<std::string> addresses = {kUsualAddress, kFreeAddress};
  if (!former.empty() && IsLoopback(former)) addresses.insert(addresses.begin(), former);
  return addresses;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> OpenHttpPort(Env env, const Config& config,
                                                         ConfigUse use, const std::string& dir) {
  const Config::Http& http = config.http;
  const bool automatic = http.listen == "auto";
  const std::string former = FormerAddress(env.files, dir);
  if (http.listen == "off" || (automatic && use != ConfigUse::kCoordinator)) {
    RETURN_IF_ERROR(env.files.Remove(HttpFileOf(dir)));
    return std::unique_ptr<HttpServer>();
  }
  HttpServer::Options options;
  options.addresses = AddressesToTry(http.listen, former);
  ASSIGN_OR_RETURN(options.access, AccessOf(env.files, http));
  options.now = [&executor = env.executor] { return executor.Now(); };
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(std::move(options));
  if (automatic && absl::IsFailedPrecondition(server.status())) {
    env.log.Warning(absl::StrCat("there is no dashboard: ", server.status().message()));
    RETURN_IF_ERROR(env.files.Remove(HttpFileOf(dir)));
    return std::unique_ptr<HttpServer>();
  }
  RETURN_IF_ERROR(server.status());
  const std::string url = (*server)->url();
  RETURN_IF_ERROR(WriteFileDurably(env.files, HttpFileOf(dir), BytesOf(absl::StrCat(url, "\n"))));
  env.log.Info(absl::StrCat("HTTP at ", url));
  return server;
}

void ReloadHttpPort(ConfigReload& reload, Files& files, HttpServer& server) {
  reload.On(
      "[http]",
      [&files, &server](const Config& config) -> absl::Status {
        ASSIGN_OR_RETURN(const HttpServer::Access access, AccessOf(files, config.http));
        return server.SetAccess(access);
      },
      [](const Config& config) {
        return !config.http.certificate.empty() || !config.http.token_file.empty();
      });
  reload.On("[http] listen", nullptr);
}

}  // namespace atolld

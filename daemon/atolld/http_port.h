// Opens the HTTP port of a daemon according to its config ([http]), and keeps its last address in a
// file.
//
// The setting "auto" gives a coordinator a port on loopback: the port that it had before, or 7080,
// or else any free port. The address is written to the log and to DIR/http, for `atoll local` and
// for scripts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/config/config_reload.h"
#include "daemon/env/env.h"
#include "daemon/web/http_server.h"

namespace atolld {

// `dir` is the daemon's folder. Returns null if the config asks for no port. Fails with the errors
// of HttpServer::Start and ReadHttpToken. If the setting is "auto" and no port is free, only warns
// and returns null. Blocks.
absl::StatusOr<std::unique_ptr<HttpServer>> OpenHttpPort(Env env, const Config& config,
                                                         ConfigUse use, const std::string& dir);

// Makes each reload read the certificate, the key and the token of the port again from their files,
// which takes a moment on the loop's thread. If a file is wrong, nothing changes, and the log names
// the file. `server` must outlive the last reload.
void ReloadHttpPort(ConfigReload& reload, Files& files, HttpServer& server);

}  // namespace atolld

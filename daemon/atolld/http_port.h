// The HTTP port of a daemon as its config wants it ([http]), and where it was found last time.
//
// "auto" is a coordinator's port on loopback: the one that it had before, else 7080, else a free
// one. The address goes into the log and into DIR/http, for `atoll local` and for scripts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/config/config_reload.h"
#include "daemon/env/env.h"
#include "daemon/web/http_server.h"

namespace atolld {

// `dir`: the daemon's own. Null: there is no port. Errors as HttpServer::Start and ReadHttpToken,
// but a free port that cannot be had for "auto" is only warned of. Blocking.
absl::StatusOr<std::unique_ptr<HttpServer>> OpenHttpPort(Env env, const Config& config,
                                                         ConfigUse use, const std::string& dir);

// At each reload the port takes the certificate, the key and the token anew from their files, which
// is a few KB on the loop's thread. A file that is wrong leaves all as it was, and the log says
// which. `server` outlives the last reload.
void ReloadHttpPort(ConfigReload& reload, Files& files, HttpServer& server);

}  // namespace atolld

#include "daemon/config/http_config.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/env/network.h"

namespace atolld {

HttpFault FaultOf(const Config::Http& http) {
  if (http.certificate.empty() != http.key.empty()) {
    const bool has = !http.certificate.empty();
    return {has ? "certificate" : "key",
            absl::StrCat("[http] ", has ? "certificate" : "key", " needs [http] ",
                         has ? "key" : "certificate", " beside it")};
  }
  if (http.listen == "auto" || http.listen == "off" || IsLoopback(http.listen)) return {};
  std::vector<std::string> missing;
  if (http.certificate.empty()) missing = {"certificate", "key"};
  if (http.token_file.empty()) missing.push_back("token_file");
  if (missing.empty()) return {};
  return {"listen", absl::StrCat("[http] listen '", http.listen,
                                 "' can be reached from other machines, so it needs [http] ",
                                 absl::StrJoin(missing, ", "),
                                 " too; an address such as '127.0.0.1:7080' needs none")};
}

}  // namespace atolld

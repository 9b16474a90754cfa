// A daemon's config file, read again while the daemon runs.
//
// Some keys can be taken over at once, by whoever registered for them; the rest of what has changed
// is named in the log, as what needs a restart. Law: a file that is not valid changes nothing, and
// the log says why. Loop thread; the file is read on the pool.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"

namespace atolld {

class ConfigReload {
 public:
  // Gets the whole new config and takes its own part. An error says what is wrong with that part,
  // and then the old one goes on to count.
  using Take = std::function<absl::Status(const Config&)>;

  // Whether values name files (a certificate, say), which may be new where the config is not: then
  // they are taken at each reload, changed or not.
  using NamesFiles = std::function<bool(const Config&)>;

  // `running`: what this process was started with, from `file`.
  ConfigReload(Executor& executor, Log& log, std::string file, ConfigUse use,
               const Config& running);

  // `name`: a section, "[machine]", or a key, "[log] level", which counts before its section. A key
  // with null for `take` waits for the next start, whoever takes its section.
  void On(const std::string& name, Take take, NamesFiles names_files = nullptr);

  // Reads the file and takes what can be taken; the log tells. One that comes while another is
  // under way is done after it.
  void Reload();

 private:
  struct Change {
    std::string name;   // "[log] level"
    std::string value;  // by now, as a file has it
    size_t place = 0;   // in values_
  };
  struct Taker {
    Take take;
    NamesFiles names_files;
  };

  void OnRead(absl::StatusOr<Config> config);
  void Apply(Config config);
  std::map<std::string, Taker>::iterator TakerOf(const std::string& section,
                                                 const std::string& name);

  Executor& executor_;
  Log& log_;
  const std::string file_;
  const ConfigUse use_;

  std::vector<std::string> values_;  // in effect, in the order of ConfigFields
  std::map<std::string, Taker> takers_;
  bool reading_ = false;
  bool again_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld

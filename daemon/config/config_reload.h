// A daemon's config file, read again while the daemon runs.
//
// A changed key takes effect immediately if a part of the daemon has registered for it (see On).
// For all other changed keys the log says that a restart is needed. Law: a file that is not valid
// changes nothing, and the log says why. Used on the loop thread; the file is read on the pool.
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
  // Called with the whole new config, to put one part of it into effect. If it returns an error,
  // which says what is wrong with that part, the old values stay in effect.
  using Take = std::function<absl::Status(const Config&)>;

  // Returns true if the values name files, such as a certificate. The contents of a file may change
  // without a change of the config, so such values are passed to `take` at each reload, changed or
  // not.
  using NamesFiles = std::function<bool(const Config&)>;

  // `running` is the config with which this process was started, read from `file`.
  ConfigReload(Executor& executor, Log& log, std::string file, ConfigUse use,
               const Config& running);

  // Registers `take` for a section ("[machine]") or a key ("[log] level"). A registration for a key
  // has precedence over one for its section. If `take` is null, changes of the key wait for the
  // next start.
  void On(const std::string& name, Take take, NamesFiles names_files = nullptr);

  // Reads the file and puts into effect what it can; the log says what changed. A call during a
  // reload makes another reload follow it.
  void Reload();

 private:
  struct Change {
    std::string name;   // "[log] level"
    std::string value;  // the new value, written as in a file
    size_t place = 0;   // the index in values_
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

  std::vector<std::string> values_;  // the values in effect, in the order of ConfigFields
  std::map<std::string, Taker> takers_;
  bool reading_ = false;
  bool again_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld

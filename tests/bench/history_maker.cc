// history_maker: makes a coordinator's folder with the store of a run of many rounds, for
// history_benchmark.py.
//
//   history_maker --config FILE --rounds N [--contributors 8]
//
// The config is a coordinator's; its folder gets the history key and the store, as a coordinator
// would have written them in N rounds. Prints what it made.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string>

#include "compression/base/status_macros.h"
#include "daemon/config/config.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"
#include "tests/bench/long_history.h"

namespace atolld {
namespace {

constexpr uint64_t kTransaction = 256;  // rounds; a real run takes one each

absl::Status MakeHistory(const std::string& file, uint64_t rounds, int contributors) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const Config config, LoadConfig(file, ConfigUse::kCoordinator));
  RETURN_IF_ERROR(files.MakeDirectories(config.coordinator.dir));
  ASSIGN_OR_RETURN(const SigningKey key, OpenHistoryKey(files, config.coordinator.dir, true));
  ASSIGN_OR_RETURN(const auto store, SqliteStore::Open(files, config.coordinator.dir));
  LongHistory history(config, contributors, key);
  RETURN_IF_ERROR(store->Apply(history.Begin()));
  while (history.ledger().version() < rounds) {
    const uint64_t left = rounds - history.ledger().version();
    RETURN_IF_ERROR(store->Apply(history.Next(std::min(left, kTransaction))));
  }
  std::cout << "{\"rounds\": " << rounds
            << ", \"header_bytes\": " << history.ledger().header()->ByteSizeLong()
            << ", \"summary_bytes\": " << history.ledger().history().bytes() << "}\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) {
  CLI::App app("Makes the store of a run of many rounds");
  std::string file;
  uint64_t rounds = 0;
  int contributors = 8;
  app.add_option("--config", file)->required();
  app.add_option("--rounds", rounds)->required();
  app.add_option("--contributors", contributors)->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  const absl::Status made = atolld::MakeHistory(file, rounds, contributors);
  if (made.ok()) return 0;
  std::cerr << made << "\n";
  return 1;
}

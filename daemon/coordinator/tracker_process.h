// TrackerProcess: the program atoll-track, which a coordinator starts beside itself if its config
// names experiment trackers ([tracking]).
//
// The program asks the coordinator for the run's figures, as an administrator does, and writes them
// to the trackers. The run never waits for it. A program that dies is started again after a pause,
// which doubles as long as it dies soon after each start; after kMostEnds such ends it is given up.
// It is not started again if it ends with exit code 0, because the run is sealed, or says that
// another start would be of no use. The log has its lines. Used on the loop thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/config/config.h"
#include "daemon/env/child_process.h"
#include "daemon/env/env.h"

namespace atolld {

class TrackerProcess {
 public:
  // How often in a row the program may end soon after its start.
  static constexpr int kMostEnds = 10;
  // How long the program may take to write the last figures once it is told to end. `atoll local`
  // kills a coordinator that takes 15 s to end.
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  // `programs` is the folder of Atoll's programs. `env` must outlive this object.
  TrackerProcess(Env env, std::string programs, const Config& config);
  ~TrackerProcess();  // kills the program

  // Does nothing if the config names no tracker. Call it once, when the coordinator answers.
  void Start();

  // Tells the program to write what is there and to end; it is not started again. Go on running the
  // loop, and the coordinator, while running() is true and kPatience has not passed.
  void End();
  bool running() const { return process_ != nullptr; }

 private:
  std::vector<std::string> Arguments(const std::string& program, const std::string& dir) const;
  void Launch();
  void OnExit(const ExitStatus& status);

  const Env env_;
  const std::string programs_;
  const Config config_;
  std::unique_ptr<ChildProcess> process_;
  absl::Time launched_;
  RestartPause pause_;
  bool ending_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld

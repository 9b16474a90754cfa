// Worker: the inner loop as a peer sees it, whatever process or stub does it.
//
// A trainer is kept running: when its worker dies it is started again, and says so by on_lost and a
// later on_configured. Messages are those of worker.proto; parameters pass through ParameterMemory.
// Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"

namespace atolld {

// Where the run's small files are that this machine has no own of; empty: its config says.
struct RunFilePlaces {
  std::string tokenizer;
  std::string program;
  std::string validation;
};

class Worker {
 public:
  struct Events {
    // A worker runs and has read model and data. It knows no memory yet.
    std::function<void(const v1::WorkerConfigured&)> on_configured;
    // Any later message of it.
    std::function<void(const v1::WorkerMessage&)> on_message;
    // It is gone, configured or not, with the reason; what was asked of it will not be answered.
    // What Restart() was given, where that has ended it; else UNAVAILABLE.
    std::function<void(absl::Status)> on_lost;
  };

  virtual ~Worker() = default;

  // Before Start.
  virtual void SetPlaces(const RunFilePlaces&) {}

  // Starts the worker and keeps it running. Once.
  virtual void Start(const v1::RunSpec& spec, Events events) = 0;

  // What is known of the run since, its data's digest above all: every later worker is told it.
  // `misfit`, where not empty, says why the one that runs does not fit it and is to end.
  virtual void Renew(const v1::RunSpec& spec, const std::string& misfit) = 0;

  // To the running worker; dropped while there is none.
  virtual void Send(const v1::DaemonMessage& message) = 0;

  // What the running worker has handed over can be used: all is well.
  virtual void Accept() {}

  // Ends a worker that has handed over what nobody can use (DATA_LOSS), and with it the state that
  // this came of, or that hangs (DEADLINE_EXCEEDED); another one is started. on_lost tells `why`.
  virtual void Restart(const absl::Status& why) = 0;

  // The machine is wanted for something else: lets the worker end, as Stop does, and starts none.
  // No event comes until Resume, which starts one. Both do nothing where it is so already; after
  // Start.
  virtual void Pause() = 0;
  virtual void Resume() = 0;

  // Of the workers that are started from now on; 0: the worker decides.
  virtual void SetThreads(uint32_t) {}

  // Lets it end; `done` runs when it is gone. No event comes after.
  virtual void Stop(Task done) = 0;

  // False: there never is a worker, and the peer is an aggregator.
  virtual bool trains() const { return true; }
};

// The trainer of an aggregator: none.
class NoWorker final : public Worker {
 public:
  explicit NoWorker(Executor& executor) : executor_(executor) {}
  void Start(const v1::RunSpec&, Events) override {}
  void Renew(const v1::RunSpec&, const std::string&) override {}
  void Send(const v1::DaemonMessage&) override {}
  void Restart(const absl::Status&) override {}
  void Pause() override {}
  void Resume() override {}
  void Stop(Task done) override { executor_.Post(std::move(done)); }
  bool trains() const override { return false; }

 private:
  Executor& executor_;
};

}  // namespace atolld

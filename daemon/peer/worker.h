// Worker: a peer's interface to the worker that runs the inner loop, which is a process or, in
// tests, a stub.
//
// The worker is kept running. If it dies it is started again; on_lost is called, and on_configured
// when the new one is ready. The messages are defined in worker.proto; parameters pass through
// ParameterMemory. Used on the loop thread.
//
// In a peer several objects stand between the worker and the round, in a chain. Each of them holds
// a reference to the one before it:
//
//   WorkerProcess    the child process and its socket; NoWorker takes its place in an aggregator
//   VirtualParties   holds the WorkerProcess; exists only in a peer that hosts parties
//   WorkerWatch      holds the VirtualParties if there are any, otherwise the WorkerProcess
//   WorkerLink       holds the WorkerWatch, as RoundRunner does; is not a Worker itself
//
// Orders pass from the last to the first by the methods of Worker. The worker's reports come back
// through Worker::Events: in Start, each object passes its events to the object that it holds. The
// daemon's process owns the WorkerProcess, and Peer owns the others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"
#include "daemon/env/memory_file.h"

namespace atolld {

// The paths of the run's small files that the worker should use in place of files of this machine.
// A path is empty if the worker should use the file that the machine's config names.
struct RunFilePlaces {
  std::string tokenizer;
  std::string program;
  std::string validation;
};

class Worker {
 public:
  struct Events {
    // Called when a worker runs and has read the model and the data. The worker does not have the
    // shared memory yet.
    std::function<void(const v1::WorkerConfigured&)> on_configured;
    // Called with each later message of the worker.
    std::function<void(const v1::WorkerMessage&)> on_message;
    // Called when the worker has ended, whether it was configured or not. It will not answer its
    // open requests. The status is the `why` of Restart if Restart has ended the worker, otherwise
    // UNAVAILABLE with the reason.
    std::function<void(absl::Status)> on_lost;
  };

  virtual ~Worker() = default;

  // Called before Start.
  virtual void SetPlaces(const RunFilePlaces&) {}

  // Starts the worker and keeps it running. Called once.
  virtual void Start(const v1::RunSpec& spec, Events events) = 0;

  // Replaces the run's spec, which every later worker is given; for example when the digest of the
  // run's data has become known. If `misfit` is not empty, it says why the running worker does not
  // fit the run, and that worker is ended.
  virtual void Renew(const v1::RunSpec& spec, const std::string& misfit) = 0;

  // Sends a message to the running worker. The message is dropped if no worker runs.
  virtual void Send(const v1::DaemonMessage& message) = 0;

  // Called when the update that the running worker has handed over is usable.
  virtual void Accept() {}

  // Ends the worker and starts another one. Called if the worker hangs (DEADLINE_EXCEEDED) or has
  // handed over an unusable update (DATA_LOSS); in the latter case the state that it has kept is
  // removed as well. on_lost gets `why`.
  virtual void Restart(const absl::Status& why) = 0;

  // Called when the machine is needed for something else. Lets the worker end, as Stop does, and
  // calls no event until Resume, which starts a worker again. Called after Start; a repeated call
  // does nothing.
  virtual void Pause() = 0;
  virtual void Resume() = 0;

  // Sets the number of threads of workers that are started from now on; with 0 the worker decides.
  virtual void SetThreads(uint32_t) {}

  // Lets the worker end, and calls `done` when it has ended. No event is called afterwards.
  virtual void Stop(Task done) = 0;

  // The memory file with the parameters, which every worker inherits when it is started; null if
  // workers open the memory by a path.
  virtual std::shared_ptr<MemoryFile> memory() const { return nullptr; }

  // False if the peer is an aggregator, which never has a worker.
  virtual bool trains() const { return true; }
};

// The Worker of an aggregator. It never starts a worker.
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

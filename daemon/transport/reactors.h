// gRPC's callback reactors, one for each end of a call.
//
// A reactor owns itself from the start of its call until gRPC's OnDone, which always comes: a
// broken call ends without the loop. LiveCalls knows those that have not come so far.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/transport/wire.h"

namespace atolld {

// The calls that gRPC still knows. Any thread.
class LiveCalls {
 public:
  explicit LiveCalls(Executor& executor) : executor_(executor) {}

  bool Add(std::shared_ptr<Wire> wire);  // false: closed, and nothing was added
  void Retire(const Wire* wire);         // the loop drops it

  // Breaks all calls; Add fails from now on.
  void Close(const absl::Status& status);
  void WaitUntilEmpty();

 private:
  Executor& executor_;
  std::mutex mutex_;
  std::condition_variable empty_;
  std::map<const Wire*, std::shared_ptr<Wire>> calls_;
  bool closed_ = false;
};

class ClientReactor final : public Wire,
                            public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `on_unavailable` runs on a gRPC thread when the link broke or could not be made.
  ClientReactor(std::shared_ptr<LoopEnd> end, std::shared_ptr<LiveCalls> live,
                std::shared_ptr<grpc::Channel> channel, std::string address,
                std::function<void()> on_unavailable);

  void Start(const std::string& method, absl::Duration deadline);

 private:
  void StartReadLocked() override;
  void StartWriteLocked(const grpc::ByteBuffer& buffer, bool more_follows) override;
  void FinishLocked(const absl::Status& status) override;
  void BreakLocked(bool gently) override;
  void WriteBrokeLocked() override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { WriteEnded(ok); }
  void OnDone(const grpc::Status& status) override;
  absl::Status Translate(const grpc::Status& status);

  const std::shared_ptr<LiveCalls> live_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::string address_;
  const std::function<void()> on_unavailable_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;  // gRPC's while a read is under way
};

class ServerReactor final : public Wire, public grpc::ServerGenericBidiReactor {
 public:
  ServerReactor(std::shared_ptr<LoopEnd> end, std::shared_ptr<LiveCalls> live,
                grpc::GenericCallbackServerContext* context);

 private:
  void StartReadLocked() override;
  void StartWriteLocked(const grpc::ByteBuffer& buffer, bool more_follows) override;
  void FinishLocked(const absl::Status& status) override;
  void BreakLocked(bool gently) override;
  void WriteBrokeLocked() override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { WriteEnded(ok); }
  void OnCancel() override;
  void OnDone() override;

  const std::shared_ptr<LiveCalls> live_;
  grpc::ByteBuffer incoming_;  // gRPC's while a read is under way

  // Guarded by mutex_.
  grpc::GenericCallbackServerContext* context_;  // null once gRPC has ended the call
  bool cancelled_ = false;
};

}  // namespace atolld

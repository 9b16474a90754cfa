#include "worker/base/grpc_link.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "atoll/v1/worker.grpc.pb.h"

namespace atolld {
namespace {

// The daemon listens before it starts this process, so a longer wait means that the daemon is gone.
constexpr std::chrono::seconds kDialTimeout(5);
// Gives the other end time to read the last message before the stream is torn down.
constexpr absl::Duration kCloseTimeout = absl::Milliseconds(500);

class Link final : public GrpcLink {
 public:
  Link(std::shared_ptr<grpc::Channel> channel, Inbox& inbox)
      : stub_(v1::Worker::NewStub(std::move(channel))),
        stream_(stub_->Attach(&context_)),
        reader_([this, &inbox] {
          Event event;
          while (stream_->Read(&event.message)) inbox.Push(event);
          event.kind = Event::Kind::kClosed;
          inbox.Push(event);
          read_all_.Notify();
        }) {}

  ~Link() override {
    stream_->WritesDone();
    if (!read_all_.WaitForNotificationWithTimeout(kCloseTimeout)) context_.TryCancel();
    reader_.join();
    stream_->Finish();
  }

  bool Send(const v1::WorkerMessage& message) override { return stream_->Write(message); }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<v1::Worker::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::DaemonMessage>> stream_;
  absl::Notification read_all_;
  std::thread reader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcLink>> GrpcLink::Dial(const std::string& address, Inbox& inbox) {
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kDialTimeout)) {
    return absl::UnavailableError(absl::StrCat("no daemon listens at ", address));
  }
  return std::unique_ptr<GrpcLink>(std::make_unique<Link>(std::move(channel), inbox));
}

}  // namespace atolld

// front_door: calls a listening socket as a stranger would, for front_door_test.py.
//
//   front_door issue --authority DIR --id ID --role ROLE --from SECONDS --life SECONDS --out DIR
//     credentials as the authority would sign them at another time: expired ones, and early ones
//   front_door probe --address HOST:PORT [--folder DIR] [--plaintext] [--name TEXT] PROTO...
//     calls every method of every service in these proto files, each over a connection of its own
//     and with every field of its request filled; prints METHOD TAB CODE TAB MESSAGE for each.
//     Whoever answers is not checked: that is the stranger's own business.
//
// Exit code 2: the call is wrong, or a proto file is not linked in here.
#include <google/protobuf/dynamic_message.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/byte_buffer.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/machine.pb.h"
#include "atoll/v1/masking.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/plan.pb.h"
#include "atoll/v1/replica.pb.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/store.pb.h"
#include "atoll/v1/worker.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/authority.h"
#include "daemon/identity/credentials.h"
#include "daemon/transport/channels.h"
#include "daemon/transport/grpc_values.h"

namespace atolld {
namespace {

namespace proto = google::protobuf;
namespace tls = grpc::experimental;

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr int kDepth = 4;  // of messages in messages that are filled

struct Options {
  std::string authority, id, role = "peer", out;
  int64_t from = 0, life = 0;
  std::string address, folder, name = "peer-1";
  bool plaintext = false;
  std::vector<std::string> files;
};

// The generated pool only has what some linked object file has registered.
std::vector<const proto::FileDescriptor*> LinkedFiles(const std::vector<std::string>& names) {
  const proto::FileDescriptor* const known[] = {
      v1::RunStatus::descriptor()->file(),  v1::ToReducer::descriptor()->file(),
      v1::Hello::descriptor()->file(),      v1::EntryBlock::descriptor()->file(),
      v1::RunSpec::descriptor()->file(),    v1::WorkerHello::descriptor()->file(),
      v1::Plan::descriptor()->file(),       v1::MachineStatus::descriptor()->file(),
      v1::MaskRoster::descriptor()->file(), v1::StoredRow::descriptor()->file()};
  std::vector<const proto::FileDescriptor*> found;
  for (const std::string& name : names) {
    const auto it = std::find_if(std::begin(known), std::end(known),
                                 [&](const auto* file) { return file->name() == name; });
    found.push_back(it == std::end(known) ? nullptr : *it);
  }
  return found;
}

// Sets every field, and the first of each oneof, because an empty order may do nothing.
void Fill(proto::Message& message, const std::string& name, int depth) {
  const proto::Reflection& reflection = *message.GetReflection();
  const proto::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const proto::FieldDescriptor* const field = type.field(i);
    const auto* const oneof = field->real_containing_oneof();
    if (oneof != nullptr && reflection.HasOneof(message, oneof)) continue;
    if (field->is_repeated()) continue;
    switch (field->cpp_type()) {
      case proto::FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(&message, field, name);
        break;
      case proto::FieldDescriptor::CPPTYPE_UINT32:
        reflection.SetUInt32(&message, field, 1);
        break;
      case proto::FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetUInt64(&message, field, 1);
        break;
      case proto::FieldDescriptor::CPPTYPE_MESSAGE:
        if (depth > 0) Fill(*reflection.MutableMessage(&message, field), name, depth - 1);
        break;
      default:
        break;
    }
  }
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const Options& options) {
  if (options.plaintext) return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions settings;
  settings.set_verify_server_certs(false);
  settings.set_check_call_host(false);
  settings.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  if (!options.folder.empty()) {
    PosixFiles files;
    constexpr size_t kLargest = 16384;
    ASSIGN_OR_RETURN(const std::string certificate,
                     ReadFile(files, CertificateFile(options.folder), kLargest));
    ASSIGN_OR_RETURN(const std::string key, ReadFile(files, KeyFile(options.folder), kLargest));
    settings.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
        std::vector<tls::IdentityKeyCertPair>{{key, certificate}}));
    settings.watch_identity_key_cert_pairs();
  }
  return tls::TlsCredentials(settings);
}

// Makes one call: the request, the half-close, then whatever arrives.
grpc::Status Knock(const Options& options,
                   const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                   const std::string& method, const std::string& request) {
  const auto channel =
      grpc::CreateCustomChannel(options.address, credentials, ClientArguments(kPatience));
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kPatience));
  grpc::CompletionQueue queue;
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  if (done()) {
    const grpc::Slice slice(request);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    bool going = done();
    grpc::ByteBuffer answer;
    while (going) {
      call->Read(&answer, nullptr);
      going = done();
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  queue.Shutdown();
  return status;
}

int Probe(const Options& options) {
  const auto credentials = CredentialsOf(options);
  if (!credentials.ok()) {
    std::cerr << credentials.status() << "\n";
    return 2;
  }
  QuietGrpcLog();
  const auto files = LinkedFiles(options.files);
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i] != nullptr) continue;
    std::cerr << "front_door.cc does not know " << options.files[i] << ": add it to LinkedFiles\n";
    return 2;
  }
  for (const proto::FileDescriptor* file : files) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        const proto::MethodDescriptor& method = *file->service(i)->method(k);
        const std::unique_ptr<proto::Message> request(
            proto::MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
        Fill(*request, options.name, kDepth);
        const std::string path =
            absl::StrCat("/", method.service()->full_name(), "/", method.name());
        const grpc::Status status =
            Knock(options, *credentials, path, request->SerializeAsString());
        std::cout << path << "\t"
                  << absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()))
                  << "\t" << absl::StrReplaceAll(status.error_message(), {{"\n", " "}})
                  << std::endl;
      }
    }
  }
  return 0;
}

absl::Status Issue(const Options& options) {
  PosixFiles files;
  std::random_device device;
  const auto random = [&device] { return uint64_t{device()} << 32 | device(); };
  ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                   Authority::Open(files, options.authority, "", absl::Now(), random));
  ASSIGN_OR_RETURN(const Role role, ParseRole(options.role));
  ASSIGN_OR_RETURN(
      const Credentials made,
      MakeCredentials(*authority, role, options.id, absl::Now() + absl::Seconds(options.from),
                      absl::Seconds(options.life)));
  return SaveCredentials(files, options.out, made);
}

int Main(int argc, char** argv) {
  CLI::App app{"Knocks at a listening socket as a stranger would."};
  app.require_subcommand(1);
  Options options;
  CLI::App* issue = app.add_subcommand("issue", "credentials of another time");
  issue->add_option("--authority", options.authority)->required();
  issue->add_option("--id", options.id)->required();
  issue->add_option("--role", options.role);
  issue->add_option("--from", options.from)->required();
  issue->add_option("--life", options.life)->required();
  issue->add_option("--out", options.out)->required();
  CLI::App* probe = app.add_subcommand("probe", "call every method");
  probe->add_option("--address", options.address)->required();
  probe->add_option("--folder", options.folder);
  probe->add_option("--name", options.name);
  probe->add_flag("--plaintext", options.plaintext);
  probe->add_option("PROTO", options.files)->required();
  CLI11_PARSE(app, argc, argv);
  if (probe->parsed()) return Probe(options);
  const absl::Status issued = Issue(options);
  if (!issued.ok()) std::cerr << issued << "\n";
  return issued.ok() ? 0 : 1;
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) { return atolld::Main(argc, argv); }

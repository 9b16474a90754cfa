#include "daemon/peer/peer_credentials.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/env.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

constexpr char kRenew[] = "/atolld.v1.Membership/Renew";
// A certificate of ninety days is due when thirty are left.
constexpr absl::Duration kBetweenChecks = absl::Hours(12);
constexpr absl::Duration kPatience = absl::Seconds(10);

// Returns the signing request if a renewal is due, otherwise an empty string.
absl::StatusOr<std::string> RequestIfDue(Files& files, const std::string& folder, absl::Time now) {
  Credentials credentials;
  ASSIGN_OR_RETURN(const CertificateInfo info, LoadCredentials(files, folder, now, &credentials));
  if (!RenewalDue(info, now)) return std::string();
  ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(credentials.key));
  return key.SigningRequest();
}

// Writes the certificate if it could be loaded again.
absl::Status Take(Files& files, const std::string& folder, const std::string& pem, absl::Time now) {
  Credentials credentials;
  ASSIGN_OR_RETURN(const CertificateInfo old, LoadCredentials(files, folder, now, &credentials));
  credentials.certificate = pem;
  ASSIGN_OR_RETURN(const CertificateInfo fresh, CheckCredentials(credentials, now));
  if (fresh.identity.id != old.identity.id || fresh.identity.role != old.identity.role) {
    return absl::InvalidArgumentError(
        absl::StrCat("the renewed certificate is of ", Describe(fresh.identity)));
  }
  return SaveCertificate(files, folder, pem);
}

}  // namespace

absl::StatusOr<SigningKey> OwnSigningKey(Env env, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/signing_key.pem");
  absl::StatusOr<SigningKey> key = LoadSigningKey(env.files, path);
  if (!absl::IsNotFound(key.status())) return key;
  ASSIGN_OR_RETURN(SigningKey made, SigningKey::FromSeed(RandomBytes(env.executor)));
  ASSIGN_OR_RETURN(const std::string pem, made.ToPem());
  RETURN_IF_ERROR(WriteSecretDurably(env.files, path, BytesOf(pem)));
  return made;
}

CertificateRenewal::CertificateRenewal(Env env, std::function<std::string()> coordinator,
                                       std::string folder)
    : env_(env), coordinator_(std::move(coordinator)), folder_(std::move(folder)) {}

CertificateRenewal::~CertificateRenewal() = default;

void CertificateRenewal::Check() {
  if (std::exchange(busy_, true)) return;
  auto request = std::make_shared<absl::StatusOr<std::string>>();
  env_.executor.Offload([&files = env_.files, folder = folder_, now = env_.executor.WallTime(),
                         request] { *request = RequestIfDue(files, folder, now); },
                        guard_.Wrap([this, request] {
                          if (request->ok() && !(*request)->empty()) return Ask(**request);
                          if (!request->ok()) {
                            env_.log.Warning(absl::StrCat("the certificate cannot be renewed: ",
                                                          request->status().message()));
                          }
                          Over();
                        }));
}

void CertificateRenewal::Ask(const std::string& signing_request) {
  call_ = env_.transport.Dial(coordinator_(), kRenew, kPatience);
  Call::Events events;
  events.on_frame = guard_.Wrap([this](const Frame& frame) { OnAnswer(frame); });
  events.on_closed = guard_.Wrap([this](const absl::Status& status) {
    if (!status.ok()) {
      env_.log.Warning(absl::StrCat("the certificate was not renewed: ", status.message()));
    }
    // The call is destroyed later, because it must not be destroyed inside its own callback.
    env_.executor.Post(guard_.Wrap([this] { Over(); }));
  });
  call_->Start(std::move(events));
  v1::EnrolRequest request;
  request.set_signing_request(signing_request);
  call_->Write(Pack(request));
  call_->Finish(absl::OkStatus());
  call_->Read();
}

void CertificateRenewal::OnAnswer(const Frame& frame) {
  v1::EnrolResponse response;
  const absl::Status parsed = Unpack(frame, &response);
  if (!parsed.ok()) return env_.log.Warning(parsed.message());
  auto taken = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [&files = env_.files, folder = folder_, pem = response.certificate(),
       now = env_.executor.WallTime(), taken] { *taken = Take(files, folder, pem, now); },
      guard_.Wrap([this, taken] {
        if (taken->ok()) return env_.log.Info("the certificate is renewed");
        env_.log.Warning(
            absl::StrCat("the renewed certificate cannot be used: ", taken->message()));
      }));
}

void CertificateRenewal::Over() {
  call_.reset();
  busy_ = false;
  env_.executor.Cancel(next_);
  next_ = env_.executor.RunAfter(kBetweenChecks, guard_.Wrap([this] { Check(); }));
}

}  // namespace atolld

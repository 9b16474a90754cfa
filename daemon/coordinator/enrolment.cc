#include "daemon/coordinator/enrolment.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

constexpr char kEnrol[] = "/atolld.v1.Membership/Enrol";
constexpr char kDescribe[] = "/atolld.v1.Membership/Describe";
constexpr char kRenew[] = "/atolld.v1.Membership/Renew";
constexpr char kCreateToken[] = "/atolld.v1.Admin/CreateToken";
constexpr char kListTokens[] = "/atolld.v1.Admin/ListTokens";
constexpr char kRevokeToken[] = "/atolld.v1.Admin/RevokeToken";
constexpr absl::string_view kEnrolMethods[] = {kEnrol,       kDescribe,   kRenew,
                                               kCreateToken, kListTokens, kRevokeToken};

// A crowd that joins at once comes again.
constexpr size_t kMostEnrolCalls = 64;
// One that does not ask makes room for others.
constexpr absl::Duration kPatience = absl::Seconds(10);

// Of one caller. Who has lost an answer asks twice a second for a moment; nobody needs more.
constexpr double kOneAsksPerSecond = 1;
constexpr double kOneAsksAtOnce = 5;

constexpr absl::Duration kBetweenPurges = absl::Hours(6);

constexpr absl::Duration kDefaultValid = absl::Hours(24);

}  // namespace

Enrolment::Enrolment(Env env, Authority* authority, EnrolmentBook& book, Source source)
    : env_(env),
      authority_(authority),
      book_(book),
      source_(std::move(source)),
      pace_of_one_(kOneAsksPerSecond, kOneAsksAtOnce),
      pace_(source_.signatures_per_second, std::max(1.0, source_.signatures_per_second)) {
  Purge();
}

Enrolment::~Enrolment() = default;

// What has expired is refused for that, and need not be remembered for anything else.
void Enrolment::Purge() {
  EnrolmentBook::Purged purged = book_.Purge(env_.executor.WallTime(), kCertificateLife);
  RunUpdate update;
  update.certificates = std::move(purged.changed);
  update.purged = std::move(purged.forgotten);
  if (!update.empty()) source_.store(std::move(update), nullptr);
  env_.executor.RunAfter(kBetweenPurges, guard_.Wrap([this] { Purge(); }));
}

bool Enrolment::Accept(const std::string& method, std::unique_ptr<Call>* call) {
  if (std::find(std::begin(kEnrolMethods), std::end(kEnrolMethods), method) ==
      std::end(kEnrolMethods)) {
    return false;
  }
  const uint64_t id = ++accepted_;
  Call& taken = *(calls_[id] = std::move(*call));
  taken.Start(
      {guard_.Wrap([this, id, method](const Frame& frame) { OnRequest(id, method, frame); }),
       nullptr, guard_.Wrap([this, id](const absl::Status&) {
         // Later: a call is not destroyed from inside its own callback.
         env_.executor.Post(guard_.Wrap([this, id] { calls_.erase(id); }));
       })});
  if (calls_.size() > kMostEnrolCalls) {
    taken.Finish(absl::ResourceExhaustedError("too many join at once; try again"));
    return true;
  }
  if (const absl::Status pace = CheckPace(method, taken.identity()); !pace.ok()) {
    taken.Finish(pace);
    return true;
  }
  taken.Read();
  env_.executor.RunAfter(kPatience, guard_.Wrap([this, id] { calls_.erase(id); }));
  return true;
}

// The caller's own pace first: one that floods takes nothing of what is left for the others.
absl::Status Enrolment::CheckPace(const std::string& method,
                                  const std::optional<Identity>& caller) {
  if (!caller || (method != kEnrol && method != kRenew && method != kDescribe)) {
    return absl::OkStatus();
  }
  const absl::Time now = env_.executor.Now();
  if (!pace_of_one_.Allow(now, caller->id)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        Describe(*caller), " asks for certificates more than once a second; try again later"));
  }
  if (method == kDescribe) return absl::OkStatus();  // it signs nothing
  if (pace_.Allow(now)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "more ask for certificates than [limits] enrolments = ", source_.signatures_per_second,
      " a second; try again"));
}

void Enrolment::OnRequest(uint64_t id, const std::string& method, const Frame& frame) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Handle(method, frame, found->second->identity(),
         guard_.Wrap([this, id](absl::StatusOr<Frame> answer) {
           const auto asked = calls_.find(id);
           if (asked == calls_.end()) return;  // it has gone, and may ask again
           if (answer.ok()) asked->second->Write(*std::move(answer));
           asked->second->Finish(answer.status());
         }));
}

void Enrolment::Handle(const std::string& method, const Frame& frame,
                       const std::optional<Identity>& caller, const Answer& answer) {
  if (authority_ == nullptr || !caller) {
    return answer(absl::FailedPreconditionError(
        "this coordinator runs in plain text: there are no tokens and no certificates"));
  }
  const auto parsed = [&](auto request, auto handle) {
    const absl::Status status = Unpack(frame, &request);
    if (!status.ok()) return answer(status);
    handle(request);
  };
  if (method == kEnrol) {
    parsed(v1::EnrolRequest(), [&](const auto& request) { Enrol(request, *caller, answer); });
  } else if (method == kDescribe) {
    parsed(v1::DescribeRequest(), [&](const auto&) { DescribeRun(*caller, answer); });
  } else if (method == kRenew) {
    parsed(v1::EnrolRequest(), [&](const auto& request) { Renew(request, *caller, answer); });
  } else if (method == kCreateToken) {
    parsed(v1::CreateTokenRequest(), [&](const auto& request) { CreateToken(request, answer); });
  } else if (method == kRevokeToken) {
    parsed(v1::RevokeTokenRequest(), [&](const auto& request) { RevokeToken(request, answer); });
  } else {
    parsed(v1::ListTokensRequest(), [&](const auto&) { ListTokens(answer); });
  }
}

void Enrolment::DescribeRun(const Identity& caller, const Answer& answer) const {
  if (source_.evicted(caller.id)) {
    return answer(absl::PermissionDeniedError(absl::StrCat("peer ", caller.id, " was evicted")));
  }
  const absl::StatusOr<TokenRecord> token = book_.Look(env_.executor.WallTime(), caller.serial);
  if (!token.ok()) return answer(token.status());
  v1::RunDescription description = source_.describe();
  description.set_role(token->role);
  answer(Pack(description));
}

void Enrolment::Enrol(const v1::EnrolRequest& request, const Identity& caller,
                      const Answer& answer) {
  const absl::StatusOr<std::string> key = SigningRequestKey(request.signing_request());
  if (!key.ok()) return answer(key.status());
  if (source_.evicted(caller.id)) {
    return answer(absl::PermissionDeniedError(absl::StrCat("peer ", caller.id, " was evicted")));
  }
  const absl::StatusOr<TokenRecord> token =
      book_.Spend(env_.executor.WallTime(), caller.serial, *key);
  if (!token.ok()) {
    env_.log.Warning(
        absl::StrCat("the token for peer ", caller.id, " was refused: ", token.status().message()));
    return answer(token.status());
  }
  const absl::StatusOr<Role> role = ParseRole(token->role);
  CHECK(role.ok());
  RunUpdate update;
  update.tokens.push_back(*token);
  env_.log.Info(absl::StrCat("peer ", token->peer, " enrols with token ", token->serial));
  Sign(request, *role, token->peer, std::move(update), answer);
}

// The identity stays; the key may be another.
void Enrolment::Renew(const v1::EnrolRequest& request, const Identity& caller,
                      const Answer& answer) {
  if (source_.evicted(caller.id)) {
    return answer(absl::PermissionDeniedError(absl::StrCat("peer ", caller.id, " was evicted")));
  }
  env_.log.Info(absl::StrCat(Describe(caller), " renews its certificate"));
  Sign(request, caller.role, caller.id, RunUpdate(), answer);
}

void Enrolment::Sign(const v1::EnrolRequest& request, Role role, const std::string& peer,
                     RunUpdate update, const Answer& answer) {
  const absl::StatusOr<std::string> certificate =
      authority_->Issue(request.signing_request(), role, peer, env_.executor.WallTime());
  if (!certificate.ok()) return answer(certificate.status());
  const absl::StatusOr<CertificateInfo> info = ParseCertificate(*certificate);
  CHECK(info.ok());
  const CertificateRecord record{info->identity.serial, peer, false,
                                 absl::ToUnixSeconds(info->not_after)};
  book_.Note(record);
  update.certificates.push_back(record);
  v1::EnrolResponse response;
  response.set_certificate(*certificate);
  response.set_peer(peer);
  response.set_role(std::string(RoleName(role)));
  response.set_run_id(source_.run_id());
  response.set_model_kind(source_.model_kind);
  source_.store(std::move(update), [answer, frame = Pack(response)] { answer(frame); });
}

v1::TokenStatus Enrolment::StatusOf(const TokenRecord& token) const {
  v1::TokenStatus status;
  status.set_serial(token.serial);
  status.set_peer(token.peer);
  status.set_role(token.role);
  status.set_state(EnrolmentBook::StateOf(token, env_.executor.WallTime()));
  status.set_expires_unix_seconds(token.expires);
  return status;
}

absl::StatusOr<v1::CreateTokenResponse> Enrolment::MakeToken(const v1::CreateTokenRequest& request,
                                                             RunUpdate* update) {
  const absl::Time now = env_.executor.WallTime();
  const absl::Duration valid = request.valid_seconds() == 0
                                   ? kDefaultValid
                                   : absl::Seconds(static_cast<int64_t>(std::min<uint64_t>(
                                         request.valid_seconds(), uint64_t{1} << 32)));
  ASSIGN_OR_RETURN(const Role role, ParseRole(request.role().empty() ? "peer" : request.role()));
  std::string peer = request.peer();
  if (peer.empty()) {
    peer =
        absl::StrCat(RoleName(role), "-", absl::Hex(env_.executor.Random() >> 32, absl::kZeroPad8));
  }
  if (source_.evicted(peer)) {
    return absl::FailedPreconditionError(
        absl::StrCat("peer ", peer, " was evicted; `atoll peer evict --undo` lets it come back"));
  }
  ASSIGN_OR_RETURN(const Credentials bootstrap,
                   MakeCredentials(*authority_, Role::kJoin, peer, now, valid));
  ASSIGN_OR_RETURN(const CertificateInfo info, ParseCertificate(bootstrap.certificate));
  ASSIGN_OR_RETURN(const TokenRecord record,
                   book_.Create(now, info.identity.serial, peer, role, valid));
  update->tokens.push_back(record);
  v1::JoinToken token;
  token.set_address(source_.address);
  token.set_authority(bootstrap.authority);
  token.set_certificate(bootstrap.certificate);
  token.set_key(bootstrap.key);
  token.set_expires_unix_seconds(record.expires);
  v1::CreateTokenResponse response;
  response.set_token(FormatJoinToken(token));
  *response.mutable_status() = StatusOf(record);
  return response;
}

void Enrolment::CreateToken(const v1::CreateTokenRequest& request, const Answer& answer) {
  RunUpdate update;
  const absl::StatusOr<v1::CreateTokenResponse> made = MakeToken(request, &update);
  if (!made.ok()) return answer(made.status());
  // Never the token itself.
  env_.log.Info(absl::StrCat("an operator has made token ", made->status().serial(), " for ",
                             made->status().role(), " ", made->status().peer()));
  source_.store(std::move(update), [answer, frame = Pack(*made)] { answer(frame); });
}

void Enrolment::ListTokens(const Answer& answer) const {
  v1::ListTokensResponse response;
  for (const TokenRecord& token : book_.tokens()) *response.add_tokens() = StatusOf(token);
  answer(Pack(response));
}

void Enrolment::RevokeToken(const v1::RevokeTokenRequest& request, const Answer& answer) {
  const absl::StatusOr<TokenRecord> token = book_.Revoke(request.serial());
  if (!token.ok()) return answer(token.status());
  env_.log.Info(absl::StrCat("an operator has revoked token ", token->serial));
  RunUpdate update;
  update.tokens.push_back(*token);
  source_.store(std::move(update), [answer, frame = Pack(StatusOf(*token))] { answer(frame); });
}

}  // namespace atolld

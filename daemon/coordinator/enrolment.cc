#include "daemon/coordinator/enrolment.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/coordinator/admin_service.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"
#include "membership/trust/audit.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

constexpr char kEnrol[] = "/atolld.v1.Membership/Enrol";
constexpr char kDescribe[] = "/atolld.v1.Membership/Describe";
constexpr char kRenew[] = "/atolld.v1.Membership/Renew";
constexpr char kCreateToken[] = "/atolld.v1.Admin/CreateToken";
constexpr char kListTokens[] = "/atolld.v1.Admin/ListTokens";
constexpr char kRevokeToken[] = "/atolld.v1.Admin/RevokeToken";
constexpr char kListIdentities[] = "/atolld.v1.Admin/ListIdentities";
constexpr char kRevokeIdentity[] = "/atolld.v1.Admin/RevokeIdentity";
constexpr absl::string_view kEnrolMethods[] = {kEnrol,          kDescribe,      kRenew,
                                               kCreateToken,    kListTokens,    kRevokeToken,
                                               kListIdentities, kRevokeIdentity};

// When a crowd joins at once, the refused ones try again.
constexpr size_t kMostEnrolCalls = 64;
// A caller that does not ask makes room for others.
constexpr absl::Duration kPatience = absl::Seconds(10);

// The pace of one caller. A peer that has lost an answer asks twice a second for a moment; none
// needs more.
constexpr double kOneAsksPerSecond = 1;
constexpr double kOneAsksAtOnce = 5;

constexpr absl::Duration kBetweenPurges = absl::Hours(6);

constexpr absl::Duration kDefaultValid = absl::Hours(24);

// In one answer; each identity has about 200 bytes.
constexpr size_t kMostIdentities = 1000;

CertificateRecord RecordOf(const CertificateInfo& info) {
  CertificateRecord record;
  record.serial = info.identity.serial;
  record.peer = info.identity.id;
  record.expires = absl::ToUnixSeconds(info.not_after);
  record.role = std::string(RoleName(info.identity.role));
  record.key = info.key_digest;
  record.issued = absl::ToUnixSeconds(info.not_before + kLateClocks);
  return record;
}

// Returns the end of a page as a string after which the next page begins.
std::string PlaceOf(const KeyRecord& key) {
  return absl::StrCat(key.peer, "/", key.role, "/", key.key);
}

// Returns the names of the peers that have a valid identity and have never connected with it,
// ascending.
std::vector<std::string> NeverCome(const EnrolmentBook& book, absl::Time now) {
  std::map<std::string, bool> seen;
  for (const KeyRecord& key : book.keys()) {
    if (key.role != RoleName(Role::kPeer) || EnrolmentBook::StateOf(key, now) != "valid") continue;
    seen[key.peer] = seen[key.peer] || key.last_seen > 0;
  }
  std::vector<std::string> names;
  for (const auto& [peer, shown] : seen) {
    if (!shown) names.push_back(peer);
  }
  return names;
}

}  // namespace

Enrolment::Enrolment(Env env, Authority* authority, EnrolmentBook& book, Source source)
    : env_(env),
      authority_(authority),
      book_(book),
      source_(std::move(source)),
      pace_of_one_(kOneAsksPerSecond, kOneAsksAtOnce),
      pace_(source_.signatures_per_second, std::max(1.0, source_.signatures_per_second)) {
  Purge();
  // Whose identities were made beside this process: a run that has not begun names who is missing.
  if (authority_ == nullptr) return;
  env_.executor.Post(guard_.Wrap([this] { TakeIssued([] {}); }));
}

Enrolment::~Enrolment() = default;

// Expired records are refused for that reason, and need not be remembered for another.
void Enrolment::Purge() {
  EnrolmentBook::Purged purged = book_.Purge(env_.executor.WallTime(), kCertificateLife);
  RunUpdate update;
  update.certificates = std::move(purged.changed);
  update.purged = std::move(purged.forgotten);
  if (!update.empty()) source_.store(std::move(update), nullptr);
  if (authority_ != nullptr && !authority_->folder().empty()) {
    env_.executor.Offload([&files = env_.files, folder = authority_->folder(),
                           now = env_.executor.WallTime()] { ForgetIssued(files, folder, now); },
                          [] {});
  }
  env_.executor.RunAfter(kBetweenPurges, guard_.Wrap([this] { Purge(); }));
}

bool Enrolment::Accept(const std::string& method, std::unique_ptr<Call>* call) {
  if (std::find(std::begin(kEnrolMethods), std::end(kEnrolMethods), method) ==
      std::end(kEnrolMethods)) {
    return false;
  }
  const uint64_t id = ++accepted_;
  Call& taken = *(calls_[id] = std::move(*call));
  Call::Events events;
  events.on_frame =
      guard_.Wrap([this, id, method](const Frame& frame) { OnRequest(id, method, frame); });
  // Later: a call is not destroyed from inside its own callback.
  events.on_closed = guard_.Wrap([this, id](const absl::Status&) {
    env_.executor.Post(guard_.Wrap([this, id] { calls_.erase(id); }));
  });
  taken.Start(std::move(events));
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

// Checks the caller's own pace first: a caller that floods takes nothing from the others.
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
  if (book_.Revoked(caller->serial, caller->key)) {  // since the call came
    return answer(absl::PermissionDeniedError("the certificate that this call shows was revoked"));
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
    parsed(v1::CreateTokenRequest(), [&](const auto& request) {
      IfStored(answer, [this, request, answer] { CreateToken(request, answer); });
    });
  } else if (method == kRevokeToken) {
    parsed(v1::RevokeTokenRequest(), [&](const auto& request) {
      IfStored(answer, [this, request, answer] { RevokeToken(request, answer); });
    });
  } else if (method == kListIdentities) {
    parsed(v1::ListIdentitiesRequest(),
           [&](const auto& request) { ListIdentities(request, answer); });
  } else if (method == kRevokeIdentity) {
    parsed(v1::RevokeIdentityRequest(), [&](const auto& request) {
      IfStored(answer,
               [this, request, caller, answer] { RevokeIdentity(request, *caller, answer); });
    });
  } else {
    parsed(v1::ListTokensRequest(), [&](const auto&) { ListTokens(answer); });
  }
}

void Enrolment::IfStored(const Answer& answer, Task then) {
  source_.try_store(guard_.Wrap([answer, then = std::move(then)](const absl::Status& kept) {
    if (!kept.ok()) return answer(NotKept(kept));
    then();
  }));
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
  if (book_.Revoked("", *key)) {  // and the token stays as it is
    return answer(absl::PermissionDeniedError(
        absl::StrCat("the key that peer ", caller.id,
                     " comes with was revoked: remove its folder `identity`, so that it makes "
                     "another one, and join again; the token is not spent")));
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

// Keeps identity and key. Otherwise the thief of a key could replace it with a key of its own, and
// continue for ever after the theft was noticed and repaired.
void Enrolment::Renew(const v1::EnrolRequest& request, const Identity& caller,
                      const Answer& answer) {
  if (source_.evicted(caller.id)) {
    return answer(absl::PermissionDeniedError(absl::StrCat("peer ", caller.id, " was evicted")));
  }
  const absl::StatusOr<std::string> key = SigningRequestKey(request.signing_request());
  if (!key.ok()) return answer(key.status());
  if (*key != caller.key) {
    env_.log.Warning(absl::StrCat(Describe(caller), " asks for a certificate of another key"));
    return answer(
        absl::PermissionDeniedError("renewal keeps the key; a new key needs a token (`atoll token "
                                    "create --peer` with its id)"));
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
  std::optional<CertificateRecord> noted = book_.Note(RecordOf(*info));
  CHECK(noted.has_value());  // no two certificates have one serial
  update.certificates.push_back(*std::move(noted));
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
  for (const std::string& other : source_.others) token.add_others(other);
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

// Takes in what `atoll identity issue` and similar commands have signed outside this process, from
// the authority's folder. Then runs `then` on the loop.
void Enrolment::TakeIssued(Task then) {
  if (authority_->folder().empty()) return then();
  auto issued = std::make_shared<std::vector<CertificateInfo>>();
  env_.executor.Offload([&files = env_.files, folder = authority_->folder(),
                         issued] { *issued = ReadIssued(files, folder); },
                        guard_.Wrap([this, issued, then = std::move(then)] {
                          RunUpdate update;
                          const absl::Time now = env_.executor.WallTime();
                          for (const CertificateInfo& info : *issued) {
                            if (!CheckValidAt(info, now).ok()) continue;
                            std::optional<CertificateRecord> noted = book_.Note(RecordOf(info));
                            if (noted) update.certificates.push_back(*std::move(noted));
                          }
                          if (!update.empty()) source_.store(std::move(update), nullptr);
                          then();
                        }));
}

v1::IdentityStatus Enrolment::StatusOf(const KeyRecord& key) const {
  v1::IdentityStatus status;
  status.set_name(key.peer);
  status.set_role(key.role);
  status.set_key(key.key);
  status.set_issued_unix_seconds(key.issued);
  status.set_expires_unix_seconds(key.expires);
  status.set_seen_unix_seconds(key.last_seen);
  status.set_state(EnrolmentBook::StateOf(key, env_.executor.WallTime()));
  if (key.revoked) status.set_why(key.for_good ? "its key was revoked" : "its name is evicted");
  return status;
}

void Enrolment::ListIdentities(const v1::ListIdentitiesRequest& request, const Answer& answer) {
  TakeIssued([this, request, answer] {
    RunUpdate update;
    for (const Identity& one : source_.here()) {
      if (one.serial.empty()) continue;
      std::optional<CertificateRecord> seen =
          book_.See(env_.executor.WallTime(), one, kCertificateLife);
      if (seen) update.certificates.push_back(*std::move(seen));
    }
    if (!update.empty()) source_.store(std::move(update), nullptr);
    const size_t limit =
        request.limit() == 0 ? kMostIdentities : std::min<size_t>(request.limit(), kMostIdentities);
    v1::ListIdentitiesResponse response;
    bool begun = request.after().empty();
    std::string last;
    for (const KeyRecord& key : book_.keys()) {
      const std::string place = PlaceOf(key);
      if (begun && static_cast<size_t>(response.identities_size()) >= limit) {
        response.set_next(last);
        break;
      }
      if (begun) *response.add_identities() = StatusOf(key);
      begun = begun || place == request.after();
      last = place;
    }
    answer(Pack(response));
  });
}

void Enrolment::RevokeIdentity(const v1::RevokeIdentityRequest& request, const Identity& caller,
                               const Answer& answer) {
  if (request.reason().size() > kLongestReason) {
    return answer(absl::InvalidArgumentError("the reason is longer than 256 bytes"));
  }
  TakeIssued([this, request, caller, answer] {
    const absl::StatusOr<std::vector<KeyRecord>> found = book_.Find(request.identity());
    if (!found.ok()) return answer(found.status());
    RunUpdate update;
    std::set<std::string> keys;
    std::vector<std::string> names;
    for (const KeyRecord& one : *found) {
      if (one.key == caller.key) {
        return answer(absl::FailedPreconditionError(
            "it is the key that this call itself is made with; revoke it by another one"));
      }
      if (one.role == RoleName(Role::kCoordinator)) {
        return answer(absl::FailedPreconditionError(
            "a coordinator cannot revoke its own key: anyone who has read that key has read its "
            "folder and can sign certificates; begin a new cluster"));
      }
      keys.insert(one.key);
      const std::string name = one.peer.empty() ? "nobody yet" : one.peer;
      names.push_back(absl::StrCat(one.key.substr(0, 16), " of ", one.role, " ", name));
    }
    for (const KeyRecord& one : *found) {
      absl::StatusOr<std::vector<CertificateRecord>> revoked =
          book_.RevokeKey(env_.executor.WallTime(), one, kCertificateLife);
      if (!revoked.ok()) return answer(revoked.status());
      for (CertificateRecord& row : *revoked) update.certificates.push_back(std::move(row));
    }
    v1::RevokeIdentityResponse response;
    for (const KeyRecord& now : book_.keys()) {
      if (keys.count(now.key) != 0) *response.add_identities() = StatusOf(now);
    }
    const std::string reason = OneLine(request.reason(), kLongestReason);
    source_.revoke(std::move(update),
                   absl::StrCat("an operator has revoked ", names.size() == 1 ? "key " : "keys ",
                                absl::StrJoin(names, ", "), reason.empty() ? "" : ": ", reason),
                   [answer, frame = Pack(response)] { answer(frame); });
  });
}

void ShowNeverCome(const EnrolmentBook& book, absl::Time now, v1::RunStatus* status) {
  constexpr int kMostNamed = 64;
  std::set<std::string> listed;
  for (const v1::PeerStatus& peer : status->peers()) listed.insert(peer.member().peer());
  for (std::string& peer : NeverCome(book, now)) {
    if (status->never_come_size() == kMostNamed) break;
    if (listed.count(peer) == 0) status->add_never_come(std::move(peer));
  }
}

std::string NotHereYet(const EnrolmentBook& book, absl::Time now) {
  constexpr size_t kMostNamed = 4;
  std::vector<std::string> names = NeverCome(book, now);
  if (names.empty()) return "";
  if (names.size() == 1) {
    return absl::StrCat("; ", names.front(), " has an identity and has not come: its log says why");
  }
  const size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  return absl::StrCat("; ", absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "",
                      " have identities and have not come: their logs say why");
}

}  // namespace atolld

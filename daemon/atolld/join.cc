#include "daemon/atolld/join.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/preflight.h"
#include "daemon/config/config.h"
#include "daemon/identity/credentials.h"
#include "daemon/transport/coordinator_client.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

constexpr size_t kLargestKey = 16384;

// The one that is there, or a fresh one that is durable when this returns.
absl::StatusOr<PrivateKey> KeyIn(Files& files, const std::string& folder) {
  const std::string path = KeyFile(folder);
  if (files.Exists(path)) {
    ASSIGN_OR_RETURN(const bool hidden, files.IsPrivate(path));
    if (!hidden) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": others may read this key; remove it and join with a fresh token"));
    }
    ASSIGN_OR_RETURN(const std::string pem, ReadFile(files, path, kLargestKey));
    absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(pem);
    return key.ok() ? key : Annotate(key.status(), path);
  }
  RETURN_IF_ERROR(files.MakeDirectories(folder));
  ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::Generate());
  ASSIGN_OR_RETURN(const std::string pem, key.ToPem());
  RETURN_IF_ERROR(WriteSecretDurably(files, path, BytesOf(pem)));
  return key;
}

absl::StatusOr<v1::EnrolResponse> EnrolWith(Files& files, const v1::JoinToken& token,
                                            const PrivateKey& key, const std::string& folder,
                                            absl::Duration patience) {
  RETURN_IF_ERROR(
      SaveCredentials(files, folder, {token.authority(), token.certificate(), token.key()}));
  ASSIGN_OR_RETURN(const std::string request, key.SigningRequest());
  absl::StatusOr<v1::EnrolResponse> answer =
      Enrol(CoordinatorAccess{token.address(), folder}, request, patience);
  // The token's key has done what it was for, or will come from the token again.
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return answer;
}

// Where the text is, seen from anywhere: the config that names it lies in another folder.
absl::StatusOr<std::string> FindText(const std::string& data) {
  std::error_code error;
  if (data.empty()) return data;
  if (std::filesystem::exists(data, error)) return std::filesystem::absolute(data).string();
  return absl::InvalidArgumentError(absl::StrCat("--data '", data, "': no such file or folder"));
}

absl::StatusOr<Config> ConfigFor(const JoinOptions& options, const v1::JoinToken& token,
                                 const v1::EnrolResponse& answer, const std::string& text,
                                 const std::string& dir) {
  Config config;
  config.run.id = "";
  config.model.kind = answer.model_kind();
  if (answer.model_kind() == kStubKind) config.model.parameters = 1;  // the coordinator tells it
  config.coordinator.address = token.address();
  config.peer.id = answer.peer();
  config.peer.role = answer.role();
  config.peer.dir = dir;
  config.peer.advertise = options.advertise.empty() ? kDialsOutOnly : options.advertise;
  config.data.path = text;
  if (!options.listen.empty()) {
    config.peer.listen = options.listen;
  } else if (!options.advertise.empty()) {
    config.peer.listen = ListenAddressFor(options.advertise);
  }
  return config;
}

absl::Status LookAtMachine(const JoinOptions& options, const v1::JoinToken& token,
                           const CertificateInfo& bootstrap, const std::string& dir) {
  PreflightOptions looked;
  looked.dir = dir;
  looked.coordinator = token.address();
  looked.listen = options.listen;
  looked.advertise = options.advertise;
  looked.now = options.clock();
  looked.worker = options.worker;
  looked.no_earlier_than = bootstrap.not_before + kLateClocks;
  absl::Status status;
  for (const Finding& finding : Preflight(looked)) {
    options.say(finding.line);
    if (finding.weight == Finding::Weight::kFatal && status.ok()) {
      status = absl::FailedPreconditionError(finding.line);
    }
  }
  return status;
}

}  // namespace

absl::StatusOr<std::string> Join(Files& files, const JoinOptions& options) {
  const absl::Time now = options.clock();
  ASSIGN_OR_RETURN(const v1::JoinToken token, ParseJoinToken(options.token));
  absl::StatusOr<CertificateInfo> bootstrap = ParseCertificate(token.certificate());
  if (!bootstrap.ok()) return Annotate(bootstrap.status(), "the token");
  const std::string& id = bootstrap->identity.id;
  const std::string dir =
      std::filesystem::absolute(options.dir.empty() ? absl::StrCat("atoll-", id) : options.dir)
          .lexically_normal()
          .string();
  const std::string config_path = absl::StrCat(dir, "/config.toml");
  const std::string identity = absl::StrCat(dir, "/", kIdentityFolder);
  const absl::StatusOr<CertificateInfo> had = LoadCredentials(files, identity, now);
  if (had.ok() && files.Exists(config_path)) {
    if (had->identity.id == id) return config_path;
    return absl::InvalidArgumentError(absl::StrCat(dir, " is that of ", Describe(had->identity),
                                                   ", and the token is for peer ", id,
                                                   "; give another --dir"));
  }
  RETURN_IF_ERROR(CheckValidAt(*bootstrap, now));
  if (!options.advertise.empty() && options.advertise.rfind(':') == std::string::npos) {
    return absl::InvalidArgumentError("--advertise is of the form HOST:PORT");
  }
  ASSIGN_OR_RETURN(const std::string text, FindText(options.data));
  RETURN_IF_ERROR(LookAtMachine(options, token, *bootstrap, dir));
  ASSIGN_OR_RETURN(const PrivateKey key, KeyIn(files, identity));
  ASSIGN_OR_RETURN(const v1::EnrolResponse answer,
                   EnrolWith(files, token, key, absl::StrCat(dir, "/token"), options.patience));
  Credentials credentials{token.authority(), answer.certificate(), ""};
  ASSIGN_OR_RETURN(credentials.key, key.ToPem());
  const absl::StatusOr<CertificateInfo> made = ParseCertificate(credentials.certificate);
  if (made.ok()) {
    const Finding clocks = CompareClocks(options.clock(), made->not_before, kLateClocks);
    if (clocks.weight != Finding::Weight::kGood) options.say(clocks.line + "; set it");
  }
  const absl::StatusOr<CertificateInfo> sound = CheckCredentials(credentials, options.clock());
  if (!sound.ok()) return Annotate(sound.status(), "what the coordinator has signed");
  ASSIGN_OR_RETURN(const Config config, ConfigFor(options, token, answer, text, dir));
  const bool needs_data = config.model.kind != kStubKind && config.model.kind != kExternalKind;
  if (needs_data && config.data.path.empty() && answer.role() == "peer") {
    return absl::InvalidArgumentError(
        "this run trains on data, which this machine needs too: name it with --data, and join "
        "again with the same token");
  }
  RETURN_IF_ERROR(WriteFileDurably(files, AuthorityFile(identity), BytesOf(credentials.authority)));
  RETURN_IF_ERROR(WriteFileDurably(files, config_path, BytesOf(FormatConfig(config))));
  // Last: with it everything is there.
  RETURN_IF_ERROR(SaveCertificate(files, identity, credentials.certificate));
  return config_path;
}

}  // namespace atolld

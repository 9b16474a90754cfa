// `atoll identity issue`: credentials for a process, signed on the coordinator's machine, for
// machines that are all their operator's: who has the coordinator's folder needs no tokens. `atoll
// token create|list|revoke`, for everybody else's, are asked of a coordinator.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/addresses.h"
#include "daemon/cli/process_folder.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

struct IdentityOptions {
  std::string dir;
  std::string id;
  std::string role = "peer";
  std::string run;
  std::string out;
  bool fresh = false;
};

std::string Absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

absl::Status Issue(const IdentityOptions& options) {
  if (!IsValidId(options.id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--id '", options.id, "': an id has ", kIdGrammar));
  }
  if (!options.run.empty() && !IsValidId(options.run)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--run '", options.run, "': a run's id has ", kIdGrammar));
  }
  const absl::StatusOr<Role> role = ParseRole(options.role);
  if (!role.ok() || *role == Role::kJoin || *role == Role::kCoordinator) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role '", options.role, "': it is peer, aggregator or admin"));
  }
  PosixFiles files;
  std::random_device device;
  const auto random = [&device] { return uint64_t{device()} << 32 | device(); };
  const absl::Time now = absl::Now();
  RETURN_IF_ERROR(
      EnsureProcessFolder(files, {Absolute(options.dir), "--dir", /*config=*/"", options.fresh}));
  ASSIGN_OR_RETURN(const std::unique_ptr<Authority> authority,
                   OpenCluster(files, Absolute(options.dir), options.run, now, random));
  return EnsureCredentials(files, *authority, Absolute(options.out), *role, options.id, now);
}

int IssueIdentity(const IdentityOptions& options) {
  const absl::Status status = Issue(options);
  if (!status.ok()) return Report(status);
  std::printf("%s\n", Absolute(options.out).c_str());
  return kDone;
}

}  // namespace

void AddIdentityVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<IdentityOptions>();
  const Verb verb = command_line.AddVerb(
      "identity issue",
      "Sign credentials for a process of your own\n"
      "With the authority in the coordinator's folder, which is made there if it has none. "
      "Credentials that are there and valid stay.",
      "atoll identity issue --dir coordinator --id peer-1 --out peer-1/identity",
      [options] { return IssueIdentity(*options); });
  verb.Add("--dir", options->dir, "The coordinator's folder").Folder().Required();
  verb.Add("--id", options->id, "The process's [peer] id").Required();
  verb.Add("--role", options->role, "peer, aggregator or admin");
  verb.Add("--run", options->run, "The name of an authority that has to be made");
  verb.Add("--out", options->out, "Where to put them: identity in the process's [peer] dir")
      .Folder()
      .Required();
  verb.Flag("--new", options->fresh, "Make the coordinator's folder, also where one was before");
}

// -----------------------------------------------------------------------------------------------

namespace {

using Json = nlohmann::ordered_json;

struct TokenOptions {
  AdminOptions admin;
  std::string peer;
  std::string role;
  std::string valid = "24h";
  std::string serial;
};

std::string Expiry(const v1::TokenStatus& token) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC",
                          absl::FromUnixSeconds(token.expires_unix_seconds()), absl::UTCTimeZone());
}

Json TokenJson(const v1::TokenStatus& token) {
  return {{"serial", token.serial()},
          {"peer", token.peer()},
          {"role", token.role()},
          {"state", token.state()},
          {"expires", Expiry(token)}};
}

std::string TokenLine(const v1::TokenStatus& token) {
  return absl::StrFormat("%-32s  %-10s %-20s %-8s %s", token.serial(), token.role(), token.peer(),
                         token.state(), Expiry(token));
}

// On standard error, whatever the answer's form: the token works, and may lead nowhere.
void WarnOfAddress(const std::string& text) {
  const absl::StatusOr<v1::JoinToken> token = ParseJoinToken(text);
  if (!token.ok()) return;
  const std::string why = WhyNotForOthers(token->address());
  if (why.empty()) return;
  std::fprintf(stderr,
               "warning: the token leads to %s, which %s: for another machine start the run with "
               "`atoll local --listen HOST:PORT`, or set [coordinator] address to a HOST:PORT that "
               "other machines reach and start the coordinator again; then make a new token\n",
               token->address().c_str(), why.c_str());
}

int Create(const TokenOptions& options) {
  absl::Duration valid;
  if (!absl::ParseDuration(options.valid, &valid) || valid < absl::Seconds(1)) {
    return Report(absl::InvalidArgumentError(
        absl::StrCat("--valid '", options.valid, "': a time with its unit, as in 24h or 30m")));
  }
  v1::CreateTokenRequest request;
  request.set_peer(options.peer);
  request.set_role(options.role);
  request.set_valid_seconds(static_cast<uint64_t>(absl::ToInt64Seconds(valid)));
  return AskCoordinator<v1::CreateTokenResponse>(
      options.admin, [&](AdminClient& client) { return client.CreateToken(request); },
      [](const v1::CreateTokenResponse& made) {
        WarnOfAddress(made.token());
        Json json = TokenJson(made.status());
        json["token"] = made.token();
        return json;
      },
      [](const v1::CreateTokenResponse& made) {
        WarnOfAddress(made.token());
        // The token alone on standard output, so that it can be piped on.
        std::fprintf(stderr, "For %s %s, once, until %s. On its machine: atolld join TOKEN\n",
                     made.status().role().c_str(), made.status().peer().c_str(),
                     Expiry(made.status()).c_str());
        return std::vector<std::string>{made.token()};
      });
}

int ListTokens(const TokenOptions& options) {
  return AskCoordinator<v1::ListTokensResponse>(
      options.admin, [](AdminClient& client) { return client.ListTokens(); },
      [](const v1::ListTokensResponse& list) {
        Json json = Json::array();
        for (const v1::TokenStatus& token : list.tokens()) json.push_back(TokenJson(token));
        return json;
      },
      [](const v1::ListTokensResponse& list) {
        std::vector<std::string> lines;
        for (const v1::TokenStatus& token : list.tokens()) lines.push_back(TokenLine(token));
        if (lines.empty()) lines.push_back("no tokens");
        return lines;
      });
}

int Revoke(const TokenOptions& options) {
  return AskCoordinator<v1::TokenStatus>(
      options.admin, [&](AdminClient& client) { return client.RevokeToken(options.serial); },
      TokenJson,
      [](const v1::TokenStatus& token) {
        return std::vector<std::string>{
            absl::StrCat("nobody joins with token ", token.serial(), " any more; whoever has, ",
                         "stays: `atoll peer evict ", token.peer(), "` puts it out")};
      });
}

Verb Add(CommandLine& command_line, const std::shared_ptr<TokenOptions>& options,
         const std::string& path, const std::string& summary, const std::string& example,
         int (*action)(const TokenOptions&)) {
  const Verb verb =
      command_line.AddVerb(path, summary, example, [options, action] { return action(*options); });
  AddCoordinatorOptions(verb, options->admin.source,
                        "The folder of a local run: its coordinator is asked");
  verb.Flag("--json", options->admin.json, "Print as JSON");
  return verb;
}

}  // namespace

void AddTokenVerbs(CommandLine& command_line) {
  const auto create = std::make_shared<TokenOptions>();
  const Verb verb =
      Add(command_line, create, "token create",
          "Make a string with which one machine may join\n"
          "On that machine: `atolld join TOKEN`.",
          "atoll token create --dir build/quickstart --peer lab-3 --valid 2h", Create);
  verb.Add("--peer", create->peer, "The id that it will have; without, one is drawn");
  verb.Add("--role", create->role, "peer (the default) or aggregator");
  verb.Add("--valid", create->valid, "For how long, at most 720h (default 24h)");
  Add(command_line, std::make_shared<TokenOptions>(), "token list",
      "List the tokens that were made", "atoll token list --dir build/quickstart", ListTokens);
  const auto revoke = std::make_shared<TokenOptions>();
  Add(command_line, revoke, "token revoke", "Let nobody join with a token any more",
      "atoll token revoke --dir build/quickstart "
      "$(atoll token list --dir build/quickstart | tail -n 1 | cut -d ' ' -f 1)",
      Revoke)
      .Add("SERIAL", revoke->serial, "As `token list` has it")
      .Required();
}

}  // namespace atolld

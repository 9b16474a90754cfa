// `atoll identity issue` makes credentials for a process, signed on the coordinator's machine, for
// machines that all belong to one operator: with the coordinator's folder no tokens are needed.
// `atoll token create|list|revoke`, for the machines of others, ask a coordinator, and so do `atoll
// identity list|revoke`, which show and revoke the keys that have a name.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"
#include "daemon/program/addresses.h"
#include "daemon/program/format.h"
#include "daemon/program/process_folder.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

std::string DayAndTime(int64_t unix_seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(unix_seconds),
                          absl::UTCTimeZone());
}

struct IdentityOptions {
  std::string dir;
  std::string id;
  std::string role = "peer";
  std::string run;
  std::string out;
  bool fresh = false;
};

std::string Absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

VerbExit Issue(const IdentityOptions& options) {
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
  RETURN_IF_ERROR(
      EnsureCredentials(files, *authority, Absolute(options.out), *role, options.id, now));
  PrintLine(stdout, Absolute(options.out));
  return kDone;
}

struct KeyOptions {
  AdminOptions admin;
  std::string identity;
};

Json TimeJson(int64_t seconds) { return seconds == 0 ? Json() : Json(DayAndTime(seconds)); }
std::string TimeText(int64_t seconds) { return seconds == 0 ? "-" : DayAndTime(seconds); }

Json KeyJson(const v1::IdentityStatus& key) {
  Json json = {{"name", key.name()},
               {"role", key.role()},
               {"key", key.key()},
               {"issued", TimeJson(key.issued_unix_seconds())},
               {"ends", TimeJson(key.expires_unix_seconds())},
               {"last_seen", TimeJson(key.seen_unix_seconds())},
               {"state", key.state()}};
  if (!key.why().empty()) json["why"] = key.why();
  return json;
}

VerbExit ListKeys(const KeyOptions& options) {
  using Keys = std::vector<v1::IdentityStatus>;
  return AskCoordinator<Keys>(
      options.admin, [](AdminClient& client) { return client.ListIdentities(); },
      [](const Keys& keys) {
        Json json = Json::array();
        for (const v1::IdentityStatus& key : keys) json.push_back(KeyJson(key));
        return json;
      },
      [](const Keys& keys) {
        std::vector<std::vector<std::string>> rows = {
            {"name", "role", "key", "issued", "ends", "last seen", "state"}};
        const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
        for (const v1::IdentityStatus& key : keys) {
          rows.push_back(
              {or_dash(key.name()), or_dash(key.role()), or_dash(key.key().substr(0, kShortDigest)),
               TimeText(key.issued_unix_seconds()), TimeText(key.expires_unix_seconds()),
               TimeText(key.seen_unix_seconds()),
               key.why().empty() ? key.state() : absl::StrCat(key.state(), ": ", key.why())});
        }
        return AlignColumns(rows, "<<<<<<<");
      });
}

VerbExit RevokeKeys(const KeyOptions& options) {
  return AskCoordinator<v1::RevokeIdentityResponse>(
      options.admin,
      [&](AdminClient& client) {
        return client.RevokeIdentity(options.identity, options.admin.reason);
      },
      [](const v1::RevokeIdentityResponse& answer) {
        Json json = Json::array();
        for (const v1::IdentityStatus& key : answer.identities()) json.push_back(KeyJson(key));
        return json;
      },
      [](const v1::RevokeIdentityResponse& answer) {
        std::vector<std::string> lines;
        for (const v1::IdentityStatus& key : answer.identities()) {
          if (key.name().empty()) {
            lines.push_back(
                absl::StrCat("key ", key.key(), " is refused, and no process has it yet"));
            continue;
          }
          lines.push_back(absl::StrCat(
              "key ", key.key().substr(0, kShortDigest), " of ", key.role(), " ", key.name(),
              " is refused from now on; the name may come back with another key"));
        }
        return lines;
      });
}

void AddKeyVerb(CommandLine& command_line, const std::shared_ptr<KeyOptions>& options,
                const std::string& path, const std::string& summary, const std::string& example,
                VerbExit (*action)(const KeyOptions&), bool revokes) {
  const Verb verb =
      command_line.AddVerb(path, summary, example, [options, action] { return action(*options); });
  if (revokes) {
    verb.Add("KEY", options->identity,
             "The first 8 or more characters of it, as `identity list` has it; or a name: all its "
             "keys")
        .Required();
  }
  AddCoordinatorOptions(verb, options->admin.source,
                        "The folder of a local run: its coordinator is asked");
  if (revokes) verb.Add("--reason", options->admin.reason, "Why, for the log");
  verb.Flag("--json", options->admin.json, "Print as JSON");
}

}  // namespace

void AddIdentityVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<IdentityOptions>();
  const Verb verb = command_line.AddVerb(
      "identity issue",
      "Sign credentials for a process of your own\n"
      "With the authority in the coordinator's folder, which is made there if it is missing. Valid "
      "credentials that are there stay.",
      "atoll identity issue --dir coordinator --id peer-1 --out peer-1/identity",
      [options] { return Issue(*options); });
  verb.Add("--dir", options->dir, "The coordinator's folder").Folder().Required();
  verb.Add("--id", options->id, "The process's [peer] id").Required();
  verb.Add("--role", options->role, "peer, aggregator or admin");
  verb.Add("--run", options->run, "The name of an authority that has to be made");
  verb.Add("--out", options->out, "Where to put them: identity in the process's [peer] dir")
      .Folder()
      .Required();
  verb.Flag("--new", options->fresh, "Make the coordinator's folder, even if there was one before");
  AddKeyVerb(command_line, std::make_shared<KeyOptions>(), "identity list",
             "List the keys that have a name in a run, and their state",
             "atoll identity list --dir build/quickstart", ListKeys, false);
  AddKeyVerb(command_line, std::make_shared<KeyOptions>(), "identity revoke",
             "Refuse a key from now on, as when it was stolen\n"
             "Its process is cut off at once, and nothing pardons the key. Its name may come back "
             "with another key: by a new token, or by `identity issue`.",
             "atoll identity revoke peer-3 --dir build/quickstart --reason \"stolen laptop\"",
             RevokeKeys, true);
}

// -----------------------------------------------------------------------------------------------

namespace {

struct TokenOptions {
  AdminOptions admin;
  std::string peer;
  std::string role;
  std::string valid = "24h";
  std::string serial;
  std::string out;
};

std::string Expiry(const v1::TokenStatus& token) {
  return DayAndTime(token.expires_unix_seconds());
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

// Written to standard error, whatever the form of the answer: the token works, but may lead
// nowhere.
void WarnOfAddress(const std::string& text) {
  const absl::StatusOr<v1::JoinToken> token = ParseJoinToken(text);
  if (!token.ok()) return;
  const std::string why = WhyNotForOthers(token->address());
  if (why.empty()) return;
  PrintLine(stderr,
            absl::StrCat("warning: the token leads to ", token->address(), ", which ", why,
                         ": for another machine start the run with `atoll local --listen "
                         "HOST:PORT`, or set [coordinator] address to a HOST:PORT that other "
                         "machines reach and start the coordinator again; then make a new token"));
}

// Checked before the token is made: a token that could not be written would be lost.
absl::Status CheckPlace(Files& files, const std::string& path) {
  if (files.Exists(path)) {
    return absl::AlreadyExistsError(absl::StrCat("--out ", path, ": is there already"));
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (files.Exists(folder)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("--out ", path, ": there is no folder ", folder));
}

// Writes the token to the file of --out, readable by its owner alone, if that option is given.
absl::Status Keep(const TokenOptions& options, const v1::CreateTokenResponse& made) {
  WarnOfAddress(made.token());
  if (options.out.empty()) return absl::OkStatus();
  PosixFiles files;
  const absl::Status written =
      WriteSecretDurably(files, Absolute(options.out), BytesOf(made.token() + "\n"));
  if (written.ok()) return written;
  return absl::Status(written.code(), absl::StrCat(written.message(),
                                                   ". Nobody has the token: `atoll token revoke ",
                                                   made.status().serial(), "`, and make another"));
}

VerbExit Create(const TokenOptions& options) {
  absl::Duration valid;
  if (!absl::ParseDuration(options.valid, &valid) || valid < absl::Seconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--valid '", options.valid, "': a time with its unit, as in 24h or 30m"));
  }
  if (!options.out.empty()) {
    PosixFiles files;
    RETURN_IF_ERROR(CheckPlace(files, Absolute(options.out)));
  }
  v1::CreateTokenRequest request;
  request.set_peer(options.peer);
  request.set_role(options.role);
  request.set_valid_seconds(static_cast<uint64_t>(absl::ToInt64Seconds(valid)));
  const std::string& out = options.out;
  return AskCoordinator<v1::CreateTokenResponse>(
      options.admin,
      [&](AdminClient& client) -> absl::StatusOr<v1::CreateTokenResponse> {
        ASSIGN_OR_RETURN(v1::CreateTokenResponse made, client.CreateToken(request));
        RETURN_IF_ERROR(Keep(options, made));
        return made;
      },
      [&](const v1::CreateTokenResponse& made) {
        Json json = TokenJson(made.status());
        json[out.empty() ? "token" : "file"] = out.empty() ? made.token() : Absolute(out);
        return json;
      },
      [&](const v1::CreateTokenResponse& made) {
        // The token alone on standard output, so that it can be piped on.
        PrintLine(stderr, absl::StrCat("For ", made.status().role(), " ", made.status().peer(),
                                       ", once, until ", Expiry(made.status()),
                                       ". On its machine: atolld join --token-file FILE"));
        return std::vector<std::string>{out.empty() ? made.token() : Absolute(out)};
      });
}

VerbExit ListTokens(const TokenOptions& options) {
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

VerbExit Revoke(const TokenOptions& options) {
  return AskCoordinator<v1::TokenStatus>(
      options.admin, [&](AdminClient& client) { return client.RevokeToken(options.serial); },
      TokenJson,
      [](const v1::TokenStatus& token) {
        return std::vector<std::string>{absl::StrCat(
            "no machine joins with token ", token.serial(), " any more; one that has joined ",
            "stays: `atoll peer evict ", token.peer(), "` puts it out, `atoll identity ", "revoke ",
            token.peer(), "` only its key")};
      });
}

Verb Add(CommandLine& command_line, const std::shared_ptr<TokenOptions>& options,
         const std::string& path, const std::string& summary, const std::string& example,
         VerbExit (*action)(const TokenOptions&)) {
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
  const Verb verb = Add(
      command_line, create, "token create",
      "Make a string with which one machine may join\n"
      "On that machine: `atolld join --token-file FILE`. Whoever reads the string first may join "
      "with it; with --out no screen shows it.",
      "atoll token create --dir build/quickstart --peer lab-3 --valid 2h "
      "--out build/quickstart/lab-3.token",
      Create);
  verb.Add("--peer", create->peer, "The id that it will have [one is drawn]");
  verb.Add("--role", create->role, "peer (the default) or aggregator");
  verb.Add("--valid", create->valid, "For how long, at most 720h (default 24h)");
  verb.Add("--out", create->out, "Write it to this new file, its owner's alone, not to the screen")
      .File();
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

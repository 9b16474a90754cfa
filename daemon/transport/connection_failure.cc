#include "daemon/transport/connection_failure.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace atolld {
namespace {

absl::string_view NameOfKind(ConnectionFailure kind) {
  switch (kind) {
    case ConnectionFailure::kNameNotFound:
      return "name not found";
    case ConnectionFailure::kRefused:
      return "connection refused";
    case ConnectionFailure::kUnreachable:
      return "unreachable";
    case ConnectionFailure::kTimedOut:
      return "timed out";
    case ConnectionFailure::kStalled:
      return "handshake stalled";
    case ConnectionFailure::kWrongProtocol:
      return "wrong protocol";
    case ConnectionFailure::kWrongCertificate:
      return "wrong certificate";
    case ConnectionFailure::kWrongRun:
      return "wrong run";
  }
  return "";
}

absl::Status Refused() {
  return ConnectionError(ConnectionFailure::kRefused, "nothing listens there");
}

// Returns the text after the last `mark`, without the end of a list of errors.
absl::string_view Behind(absl::string_view text, absl::string_view mark) {
  const size_t at = text.rfind(mark);
  return at == absl::string_view::npos ? text : text.substr(at + mark.size());
}

constexpr absl::string_view kVerifierSays = "verification check failed with error: ";
constexpr absl::string_view kUnauthenticated = "UNAUTHENTICATED: ";

constexpr absl::string_view kStalledWords =
    "connected, but the TLS handshake got no answer; what accepts there is stopped or very busy, "
    "or packets above some size are lost on the way (MTU?)";

// Returns a time in the form that people read: "no answer in 2.5s".
std::string NoAnswerIn(absl::Duration waited) {
  const absl::Duration unit =
      waited < absl::Seconds(1) ? absl::Milliseconds(10) : absl::Milliseconds(100);
  return absl::StrCat("no answer in ", absl::FormatDuration(absl::Trunc(waited + unit / 2, unit)));
}

}  // namespace

absl::Status ConnectionError(ConnectionFailure kind, absl::string_view detail) {
  const std::string text = absl::StrCat(NameOfKind(kind), ": ", detail);
  switch (kind) {
    case ConnectionFailure::kNameNotFound:
      return absl::NotFoundError(text);
    case ConnectionFailure::kRefused:
    case ConnectionFailure::kUnreachable:
    case ConnectionFailure::kTimedOut:
    case ConnectionFailure::kStalled:
      return absl::UnavailableError(text);
    case ConnectionFailure::kWrongProtocol:
    case ConnectionFailure::kWrongCertificate:
    case ConnectionFailure::kWrongRun:
      return absl::FailedPreconditionError(text);
  }
  return absl::UnknownError(text);
}

absl::Status ConnectionErrorOf(int error) {
  if (error == ECONNREFUSED) return Refused();
  const std::string words = std::generic_category().message(error);
  if (error == ETIMEDOUT) return ConnectionError(ConnectionFailure::kTimedOut, words);
  return ConnectionError(ConnectionFailure::kUnreachable, words);
}

absl::Status ConnectionTimedOut(absl::Duration waited) {
  return ConnectionError(ConnectionFailure::kTimedOut, NoAnswerIn(waited));
}

absl::Status ConnectionStalled(absl::Duration waited) {
  return ConnectionError(ConnectionFailure::kStalled,
                         absl::StrReplaceAll(kStalledWords, {{"no answer", NoAnswerIn(waited)}}));
}

std::optional<absl::Status> ConnectionErrorOf(absl::string_view grpc_text) {
  if (absl::StrContains(grpc_text, "DNS resolution failed")) {
    return ConnectionError(ConnectionFailure::kNameNotFound, Behind(grpc_text, "is_balancer=0: "));
  }
  if (absl::StrContains(grpc_text, kVerifierSays)) {
    const absl::string_view says = Behind(grpc_text, kVerifierSays);
    // gRPC's own check of the role's name says no more than that it failed.
    if (absl::StrContains(says, "Hostname Verification")) return std::nullopt;
    return ConnectionError(ConnectionFailure::kWrongCertificate, Behind(says, kUnauthenticated));
  }
  if (!absl::StrContains(grpc_text, "failed to connect")) return std::nullopt;
  if (absl::StrContains(grpc_text, "Connection refused")) return Refused();
  for (const char* const words : {"Network is unreachable", "No route to host", "Host is down",
                                  "Network is down", "Invalid argument", "Permission denied"}) {
    if (!absl::StrContains(grpc_text, words)) continue;
    return ConnectionError(ConnectionFailure::kUnreachable, words);
  }
  // TCP's connection was made when gRPC waits for either of these.
  for (const char* const words : {"andshake timed out", "SETTINGS frame"}) {
    if (!absl::StrContains(grpc_text, words)) continue;
    return ConnectionError(ConnectionFailure::kStalled, kStalledWords);
  }
  for (const char* const words : {"timed out", "timeout", "FD Shutdown", "Timed out"}) {
    if (!absl::StrContains(grpc_text, words)) continue;
    return ConnectionError(ConnectionFailure::kTimedOut, "no answer");
  }
  if (absl::StrContains(grpc_text, "wrong version number")) {
    return ConnectionError(ConnectionFailure::kWrongProtocol, "what answers there speaks no TLS");
  }
  return std::nullopt;
}

bool MayBeHandshake(absl::string_view grpc_text) {
  for (const char* const words :
       {"andshake", "Hostname Verification", "Socket closed", "Connection reset", "Broken pipe"}) {
    if (absl::StrContains(grpc_text, words)) return true;
  }
  return false;
}

}  // namespace atolld

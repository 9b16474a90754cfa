// Formats a coordinator's report about a run as JSON for programs and as text for people.
//
// The JSON has the names of admin.proto, and its digests are hexadecimal. Figures follow figures.h:
// null if unknown, and a word if not finite. Pure. May be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

// What is said of each peer of RunStatus.never_come.
inline constexpr char kNeverCome[] = "it has an identity and has never come: its log says why";

nlohmann::ordered_json RunStatusJson(const v1::RunStatus& status);
nlohmann::ordered_json PeersJson(const v1::RunStatus& status);
nlohmann::ordered_json PeerJson(const v1::PeerStatus& peer);
nlohmann::ordered_json LineageJson(const v1::Lineage& lineage);
nlohmann::ordered_json HeaderJson(const v1::EntryHeader& header);

std::vector<std::string> RunStatusText(const v1::RunStatus& status);
std::vector<std::string> RoundsText(const v1::RunStatus& status);  // with the newest round first
std::vector<std::string> PeersText(const v1::RunStatus& status);
std::vector<std::string> PeerText(const v1::PeerStatus& peer);
// The next three return cells of tables of peers, or "-" if the peer does not report the figure.
// `figure` is the JSON name of one of ToldFigures().
std::string ToldText(const v1::PeerStatus& peer, const char* figure);
std::string StepText(const v1::PeerProgress& progress);  // "12/30"
std::string PidText(const v1::PeerStatus& peer);
// Returns the reason why a peer does not train; if there are several, a limit of its owner comes
// first. If the peer trains, returns what was noticed about its updates.
std::string WhyIdle(const v1::PeerStatus& peer);
// Returns a text such as "pass 1, 34.2 % (spent 12,345; held 900; returned 0)".
std::string DataText(const v1::DataStatus& data);
// Returns a text such as "96.1 %", or "-" if unknown.
std::string UtilisationText(const v1::Utilisation& utilisation);
// Returns the bytes that were sent and received while workers trained, and the total: "1.2 MB of
// 1.3 MB"; or "-" if unknown.
std::string HiddenText(const v1::Utilisation& utilisation);
// Returns a text such as "85,000 tokens a round; these peers make 57,600: more peers still help",
// or "unknown: " and the reason.
std::string NoiseText(const v1::NoiseStatus& noise);

// Returns a line for each peer that owns experts, "peer-1 owns 0-3, 6", and then one for the
// experts that have fewer owners than the run asks for, "expert 3 has 1 owner of 2: it waits for
// another peer". Returns no lines if the run has no owners.
std::vector<std::string> OwnersText(const v1::RunStatus& status);

// Returns a line for each peer with the ranks of the adapters that it trains, and one with those
// that nobody trains. For a run whose adapters have slices.
std::vector<std::string> RanksText(const v1::RunStatus& status);

// PrivacyText describes the differential privacy that is spent: "epsilon 1.234 at delta 1e-05, of
// 3". It returns an empty text if the run has none. SpentEpsilon returns the epsilon in the newest
// round of a status: 0 before the first round, and nullopt if it is not known.
std::optional<double> SpentEpsilon(const v1::RunStatus& status);
std::string PrivacyText(const v1::PrivacySpec& privacy, std::optional<double> epsilon);
// The last words of NoiseText if it is known.
std::string NoiseVerdict(const v1::NoiseStatus& noise);
std::vector<std::string> HeadersText(const std::vector<v1::EntryHeader>& headers);

// Returns the JSON of a figure that may be unknown or not finite (see FigureJson).
nlohmann::ordered_json OrNull(const std::optional<double>& value);
nlohmann::ordered_json OrNull(const std::optional<int>& value);

// Returns a script for the dashboard's page. It exports `peerFigures`: a peer's figures that have a
// title, each with its place in PeerJson, its title, its unit (UnitName) and its help.
std::string PeerFiguresScript();

// Returns one object or list as indented text. The text is ASCII whatever the strings contain:
// other characters and control characters are escaped, and bytes that are not valid UTF-8 become an
// escaped U+FFFD.
std::string JsonText(const nlohmann::ordered_json& json);
// Returns the same on one line.
std::string JsonLine(const nlohmann::ordered_json& json);

}  // namespace atolld

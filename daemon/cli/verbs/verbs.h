// The verbs of `atoll`. Each function adds a group of verbs, and keeps the variables of their
// options in memory that lives as long as the CommandLine.
#pragma once

#include "daemon/program/command_line.h"

namespace atolld {

// Adds all verbs.
void AddAllVerbs(CommandLine& command_line);

void AddIdentityVerbs(CommandLine& command_line);  // identity issue
void AddLocalVerb(CommandLine& command_line);
void AddRunVerbs(CommandLine& command_line);     // run show, watch, diagnose, ..., stop
void AddBranchVerb(CommandLine& command_line);   // run branch
void AddPublishVerb(CommandLine& command_line);  // run publish
void AddVerifyVerb(CommandLine& command_line);   // verify
void AddPeerVerbs(CommandLine& command_line);    // peer list, show, drain, evict
void AddHealthVerb(CommandLine& command_line);
void AddReceiptVerb(CommandLine& command_line);    // peer receipt
void AddMachineVerbs(CommandLine& command_line);   // status, pause, finish, resume
void AddLimitsVerbs(CommandLine& command_line);    // limits show, limits set
void AddTokenVerbs(CommandLine& command_line);     // token create, list, revoke
void AddLogVerbs(CommandLine& command_line);       // log list, log verify, log replay
void AddSnapshotVerbs(CommandLine& command_line);  // snapshot list, verify, save
void AddStoreVerbs(CommandLine& command_line);     // store migrate
void AddEvalVerb(CommandLine& command_line);
void AddGenerateVerb(CommandLine& command_line);
void AddExportVerb(CommandLine& command_line);
void AddImportVerb(CommandLine& command_line);
void AddDataVerbs(CommandLine& command_line);        // data prepare, inspect
void AddExperimentVerbs(CommandLine& command_line);  // experiment run, report, ..., compose
void AddConfigVerbs(CommandLine& command_line);      // config validate, print
void AddCheckVerb(CommandLine& command_line);
void AddPlanVerb(CommandLine& command_line);
void AddBenchVerbs(CommandLine& command_line);  // bench codec, exchange, churn

}  // namespace atolld

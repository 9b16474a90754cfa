// The verbs of `atoll` in the order and under the headings of its help.
#include "daemon/cli/verbs/verbs.h"

namespace atolld {

void AddAllVerbs(CommandLine& command_line) {
  command_line.BeginHeading("Train, look on, give orders");
  AddLocalVerb(command_line);
  command_line.DescribeGroup("run", "Look at a run, pause it, end it, branch from it");
  AddRunVerbs(command_line);
  AddBranchVerb(command_line);
  AddPublishVerb(command_line);
  command_line.DescribeGroup("peer", "The peers of a run: see what they gave, ask them to leave");
  AddPeerVerbs(command_line);
  AddReceiptVerb(command_line);
  AddHealthVerb(command_line);

  command_line.BeginHeading("Lend this machine");
  AddMachineVerbs(command_line);
  command_line.DescribeGroup("limits", "What the owner of this machine lends, and when");
  AddLimitsVerbs(command_line);

  command_line.BeginHeading("Let others join");
  command_line.DescribeGroup("token", "Let other machines join");
  AddTokenVerbs(command_line);
  command_line.DescribeGroup("identity", "The keys in a run: issue one, see all, revoke one");
  AddIdentityVerbs(command_line);
  AddCheckVerb(command_line);

  command_line.BeginHeading("Use a model");
  AddEvalVerb(command_line);
  AddGenerateVerb(command_line);
  AddExportVerb(command_line);
  AddImportVerb(command_line);

  command_line.BeginHeading("Prepare a run");
  command_line.DescribeGroup("config", "Check config files, print them and their defaults");
  AddConfigVerbs(command_line);
  command_line.DescribeGroup("data", "Make and look at data to train on");
  AddDataVerbs(command_line);
  AddPlanVerb(command_line);

  command_line.BeginHeading("Try a federated idea");
  command_line.DescribeGroup("experiment", "A federation of parties: data, runs, report");
  AddExperimentVerbs(command_line);

  command_line.BeginHeading("Look into a run's folder");
  AddVerifyVerb(command_line);
  command_line.DescribeGroup("log", "Look at a run's log of updates, and check it");
  AddLogVerbs(command_line);
  command_line.DescribeGroup("snapshot", "Look at a replica's snapshots, check and save them");
  AddSnapshotVerbs(command_line);
  command_line.DescribeGroup("store", "Where a coordinator keeps its run: move it");
  AddStoreVerbs(command_line);

  command_line.BeginHeading("Measure");
  command_line.DescribeGroup("bench", "Measure parts on this machine");
  AddBenchVerbs(command_line);
}

}  // namespace atolld

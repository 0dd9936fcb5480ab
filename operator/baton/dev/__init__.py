"""A stand-in for operator and API server, for processes on one machine: `baton dev`. What decides and what speaks to the queue is
the operator's own (GroupRuntime and QueueWorker); what stands in is where facts come from and where the ledger goes.
"""

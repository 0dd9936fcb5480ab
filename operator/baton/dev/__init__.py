"""`baton dev`: a stand-in for the operator and the API server, for processes on one machine. Decisions and access to the queue
are the operator's (GroupRuntime and QueueWorker); only the sources of facts and the place of the ledger differ.
"""

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Asks Kafka's and RocketMQ's own assignors. Per line of standard input one request, per line of standard output one answer.
 *
 * <pre>
 * request: assignor TAB repeats TAB queue:count,… TAB member|instance|zone|generation|queue,…|queue:n,…;… TAB queue:zone+zone/zone/…,… TAB option
 * answer:  member=queue:n,…;… TAB member=queue:n,…;… (withheld) TAB nanoseconds,… TAB bytes
 * </pre>
 *
 * The option is a number of virtual nodes, the rooms (a+b), or the strategy within rooms (with its own option after a colon). An exception is
 * "ERROR" and its text. With repeats above 0 the answer is computed that often and timed each time; the bytes are what one more
 * allocates.
 */
public final class Peers {
    private static final class Member {
        String name;
        String instance;
        String zone;
        int generation;
        List<String> queues = new ArrayList<>();
        List<TopicPartition> owned = new ArrayList<>();
    }

    private static final class Answer {
        Map<String, List<TopicPartition>> assignment;
        Map<String, List<TopicPartition>> withheld = new TreeMap<>();
    }

    /** Where the cooperative assignor is going. (StickyAssignor itself takes claims from its user data only.) */
    private static final class Target extends AbstractStickyAssignor {
        private static final class Claims extends CooperativeStickyAssignor {
            MemberData of(Subscription subscription) {
                return memberData(subscription);
            }
        }

        private final Claims claims = new Claims();

        @Override
        public String name() {
            return "target";
        }

        @Override
        protected MemberData memberData(Subscription subscription) {
            return claims.of(subscription);
        }
    }

    private final String assignor;
    private final Map<String, Integer> queues = new TreeMap<>();
    private final Map<String, Member> members = new TreeMap<>();
    private final Map<String, String[]> zones = new HashMap<>();
    private final String option;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in), 1 << 20);
        PrintStream out = new PrintStream(System.out, false);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println(new Peers(line).answer(Integer.parseInt(line.split("\t", 3)[1])));
            } catch (Exception | AssertionError error) {
                out.println("ERROR " + error);
            }
            out.flush();
        }
    }

    private Peers(String line) {
        String[] fields = line.split("\t", -1);
        assignor = fields[0];
        for (String queue : list(fields[2], ",")) queues.put(queue.split(":")[0], Integer.valueOf(queue.split(":")[1]));
        for (String text : list(fields[3], ";")) {
            String[] parts = text.split("\\|", -1);
            Member member = new Member();
            member.name = parts[0];
            member.instance = parts[1];
            member.zone = parts[2];
            member.generation = Integer.parseInt(parts[3]);
            member.queues = list(parts[4], ",");
            for (String owned : list(parts[5], ",")) {
                int colon = owned.indexOf(':');
                member.owned.add(new TopicPartition(owned.substring(0, colon), Integer.parseInt(owned.substring(colon + 1))));
            }
            members.put(member.name, member);
        }
        for (String text : list(fields[4], ",")) zones.put(text.split(":", -1)[0], text.split(":", -1)[1].split("/", -1));
        option = fields[5];
    }

    private static List<String> list(String text, String separator) {
        return text.isEmpty() ? new ArrayList<>() : new ArrayList<>(List.of(text.split(separator)));
    }

    private List<String> zonesOf(String queue, int number) {
        return zones.containsKey(queue) ? list(zones.get(queue)[number], "\\+") : new ArrayList<>();
    }

    private String answer(int repeats) {
        Supplier<Answer> question = question();
        Answer answer = question.get();
        StringBuilder times = new StringBuilder();
        for (int i = 0; i < repeats; i++) {
            long start = System.nanoTime();
            question.get();
            times.append(i == 0 ? "" : ",").append(System.nanoTime() - start);
        }
        com.sun.management.ThreadMXBean thread = (com.sun.management.ThreadMXBean) java.lang.management.ManagementFactory.getThreadMXBean();
        long before = thread.getCurrentThreadAllocatedBytes();
        if (repeats > 0) question.get();
        long bytes = thread.getCurrentThreadAllocatedBytes() - before;
        return text(answer.assignment) + "\t" + text(answer.withheld) + "\t" + times + "\t" + bytes;
    }

    private static String text(Map<String, List<TopicPartition>> hands) {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, List<TopicPartition>> hand : hands.entrySet()) {
            text.append(text.length() == 0 ? "" : ";").append(hand.getKey()).append('=');
            String comma = "";
            for (TopicPartition partition : hand.getValue()) {
                text.append(comma).append(partition.topic()).append(':').append(partition.partition());
                comma = ",";
            }
        }
        return text.toString();
    }

    private Supplier<Answer> question() {
        switch (assignor) {
            case "range": return kafka(RangeAssignor::new);
            case "round-robin": return kafka(RoundRobinAssignor::new);
            case "sticky": return kafka(Target::new);
            case "cooperative-sticky": return kafka(CooperativeStickyAssignor::new);
            case "uniform": return uniform();
            default: return rocketmq();
        }
    }

    private Supplier<Answer> kafka(Supplier<AbstractPartitionAssignor> made) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        Set<String> read = new TreeSet<>();
        for (Member member : members.values()) {
            Optional<String> rack = member.zone.isEmpty() ? Optional.empty() : Optional.of(member.zone);
            Subscription subscription = new Subscription(member.queues, null, member.owned, member.generation, rack);
            if (!member.instance.isEmpty()) subscription.setGroupInstanceId(Optional.of(member.instance));
            subscriptions.put(member.name, subscription);
            read.addAll(member.queues);
        }
        Map<String, List<PartitionInfo>> infos = new HashMap<>();
        for (String queue : read) {
            List<PartitionInfo> infosOfQueue = new ArrayList<>();
            for (int n = 0; n < queues.getOrDefault(queue, 0); n++) {
                List<Node> nodes = new ArrayList<>();
                for (String zone : zonesOf(queue, n)) nodes.add(new Node(nodes.size(), "host", 1, zone));
                Node[] replicas = nodes.toArray(new Node[0]);
                infosOfQueue.add(new PartitionInfo(queue, n, null, replicas, replicas));
            }
            if (!infosOfQueue.isEmpty()) infos.put(queue, infosOfQueue);
        }
        return () -> {
            AbstractPartitionAssignor assignor = made.get();
            Answer answer = new Answer();
            answer.assignment = assignor.assignPartitions(infos, subscriptions);
            if (assignor instanceof CooperativeStickyAssignor) {
                Map<TopicPartition, String> transferring = ((CooperativeStickyAssignor) assignor).partitionsTransferringOwnership();
                if (transferring != null)
                    transferring.forEach((partition, name) -> answer.withheld.computeIfAbsent(name, x -> new ArrayList<>()).add(partition));
            }
            return answer;
        };
    }

    /** Kafka's assignor at the server (KIP-848). Topics are ids there, and claims are the group's own record: one holder each. */
    private Supplier<Answer> uniform() {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        for (String queue : queues.keySet()) {
            Uuid id = new Uuid(1, ids.size() + 1);
            ids.put(queue, id);
            names.put(id, queue);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> group = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (Member member : members.values()) {
            Set<Uuid> subscribed = new HashSet<>();
            for (String queue : member.queues) if (ids.containsKey(queue)) subscribed.add(ids.get(queue));
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            for (TopicPartition partition : member.owned) {
                Uuid id = ids.get(partition.topic());
                owned.computeIfAbsent(id, x -> new HashSet<>()).add(partition.partition());
                owners.computeIfAbsent(id, x -> new HashMap<>()).put(partition.partition(), member.name);
            }
            Optional<String> rack = member.zone.isEmpty() ? Optional.empty() : Optional.of(member.zone);
            group.put(member.name, new MemberSubscriptionAndAssignmentImpl(rack, Optional.empty(), subscribed, new Assignment(owned)));
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid id) {
                return names.containsKey(id) ? queues.get(names.get(id)) : -1;
            }

            @Override
            public Set<String> racksForPartition(Uuid id, int number) {
                return new HashSet<>(zonesOf(names.get(id), number));
            }
        };
        SubscriptionType type = subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupSpecImpl spec = new GroupSpecImpl(group, type, owners);
        return () -> {
            Answer answer = new Answer();
            answer.assignment = new LinkedHashMap<>();
            new UniformAssignor().assign(spec, describer).members().forEach((name, hand) -> {
                List<TopicPartition> partitions = new ArrayList<>();
                hand.partitions().forEach((id, numbers) -> numbers.forEach(n -> partitions.add(new TopicPartition(names.get(id), n))));
                answer.assignment.put(name, partitions);
            });
            return answer;
        };
    }

    /** RocketMQ asks every member by itself, per queue, with the members that read it. */
    private Supplier<Answer> rocketmq() {
        AllocateMessageQueueStrategy strategy = strategy(assignor, option);
        return () -> {
            Answer answer = new Answer();
            answer.assignment = new TreeMap<>();
            for (String name : members.keySet()) answer.assignment.put(name, new ArrayList<>());
            for (Map.Entry<String, Integer> queue : queues.entrySet()) {
                List<String> readers = new ArrayList<>();
                for (Member member : members.values()) if (member.queues.contains(queue.getKey())) readers.add(member.name);
                List<MessageQueue> partitions = new ArrayList<>();
                for (int n = 0; n < queue.getValue(); n++) partitions.add(new MessageQueue(queue.getKey(), broker(queue.getKey(), n), n));
                for (String reader : partitions.isEmpty() ? Collections.<String>emptyList() : readers)
                    for (MessageQueue partition : strategy.allocate("group", reader, partitions, readers))
                        answer.assignment.get(reader).add(new TopicPartition(partition.getTopic(), partition.getQueueId()));
            }
            return answer;
        };
    }

    private String broker(String queue, int number) {
        List<String> rooms = zonesOf(queue, number);
        return rooms.isEmpty() ? "broker" : rooms.get(0) + "@broker";
    }

    private AllocateMessageQueueStrategy strategy(String name, String option) {
        switch (name) {
            case "average": return new AllocateMessageQueueAveragely();
            case "circle": return new AllocateMessageQueueAveragelyByCircle();
            case "consistent-hash": return new AllocateMessageQueueConsistentHash(Integer.parseInt(option));
            case "machine-room": {
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(new HashSet<>(list(option, "\\+")));
                return room;
            }
            case "machine-room-nearby": {
                String[] within = option.split(":", 2);
                return new AllocateMachineRoomNearby(strategy(within[0], within.length > 1 ? within[1] : ""), new AllocateMachineRoomNearby.MachineRoomResolver() {
                    @Override
                    public String brokerDeployIn(MessageQueue partition) {
                        return partition.getBrokerName().split("@")[0];
                    }

                    @Override
                    public String consumerDeployIn(String name) {
                        return members.get(name).zone;
                    }
                });
            }
            default: throw new IllegalArgumentException(name);
        }
    }
}

"""A program that uses Spark as the tests do, for the sake of the classes that it loads: see `tests.local_spark.classes`.

It is given the options of the JVM.
"""

import sys

from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[2]").config("spark.driver.extraJavaOptions", sys.argv[1]).getOrCreate()
rows = session.readStream.format("rate").load().groupBy("value").count()
query = rows.writeStream.format("memory").queryName("rows").outputMode("complete").trigger(availableNow=True).start()
query.awaitTermination()
session.sql("select * from rows").collect()
session.stop()

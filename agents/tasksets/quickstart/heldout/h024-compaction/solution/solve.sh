#!/bin/bash
set -e
cd /app
echo window > index.txt
echo sugar > log.txt
echo 63 > copy.txt

#!/bin/bash
set -e
cd /app
echo wood > record.txt
echo table > log.txt
echo purple > temp.txt
